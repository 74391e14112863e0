// The control port's listener, with an echo in gRPC's place.
#include "server/door/control_listener.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/transport/descriptors.h"

namespace phub::server {
namespace {

using namespace std::chrono_literals;

// Keeps what it is given, and replies to the first byte with "k".
struct Echo {
  std::mutex mutex;
  std::vector<UniqueFd> served;
  void operator()(UniqueFd socket) {
    const std::lock_guard lock(mutex);
    const bool is_sent = ::send(socket.get(), "k", 1, MSG_NOSIGNAL) == 1;
    PHUB_CHECK(is_sent, "the peer is there");  // on the listener's thread
    served.push_back(std::move(socket));
  }
};

struct ListenerRig {
  Echo echo;
  std::unique_ptr<ControlListener> listener;

  explicit ListenerRig(std::chrono::milliseconds first_byte = 10min,
                       const char* address = "127.0.0.1:0", bool starts = true,
                       std::size_t known_max = 100, std::size_t of_payer = 0) {
    listener = std::move(*ControlListener::create({.address = address,
                                                   .silent_max = 8,
                                                   .strangers_max = 8,
                                                   .known_max = known_max,
                                                   .known_of_payer_max = of_payer,
                                                   .stranger_bytes_max = 1000,
                                                   .unfinished_bytes_max = 10'000,
                                                   .unfinished_of_payer_max = 15'000,
                                                   .first_byte = first_byte}));
    if (starts) start();
  }
  void start() {
    listener->start([this](UniqueFd socket) { echo(std::move(socket)); });
  }
  UniqueFd reach() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    transport::set_timeout(socket.get(), 60s);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(parse_address(listener->address())->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    return socket;
  }
};

// As gRPC names the other end of what `socket` is connected to.
std::string peer_name(const UniqueFd& socket) {
  sockaddr_in own{};
  socklen_t length = sizeof(own);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length);
  return "ipv4:127.0.0.1:" + std::to_string(ntohs(own.sin_port));
}

bool speak(const UniqueFd& socket) { return ::send(socket.get(), "x", 1, MSG_NOSIGNAL) == 1; }

// The reply, 0 at the end of the stream, or '?' where neither came.
char reply(const UniqueFd& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return '?';
  return got == 1 ? byte : '\0';
}

// Open, and nothing said.
bool is_left_alone(const UniqueFd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == -1 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

UniqueFd known_caller(const ListenerRig& rig, const std::string& payer = "") {
  UniqueFd caller = rig.reach();
  REQUIRE(speak(caller));
  REQUIRE(reply(caller) == 'k');
  rig.listener->know(peer_name(caller), payer);
  return caller;
}

}  // namespace

TEST_CASE("who says nothing at the control port gives way, and who speaks is served") {
  const ListenerRig rig;
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(rig.reach());
  const UniqueFd caller = rig.reach();
  REQUIRE(speak(caller));
  CHECK(reply(caller) == 'k');
  CHECK(reply(silent.front()) == '\0');
  CHECK(rig.listener->counters().handed_over == 1);
}

TEST_CASE("who says nothing in time is let go") {
  const ListenerRig rig(20ms);
  CHECK(reply(rig.reach()) == '\0');
}

TEST_CASE("strangers give way to each other and leave known callers alone") {
  const ListenerRig rig;
  const UniqueFd caller = known_caller(rig);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(rig.reach());
    REQUIRE(speak(strangers.back()));
    CHECK(reply(strangers.back()) == 'k');
  }
  CHECK(reply(strangers.front()) == '\0');  // six of its address stay
  CHECK(::send(strangers.back().get(), "y", 1, MSG_NOSIGNAL) == 1);
  CHECK(is_left_alone(caller));
}

TEST_CASE("who is known when there are as many as may be stays a stranger") {
  const ListenerRig rig(10min, "127.0.0.1:0", true, 1);
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 2; ++i) callers.push_back(known_caller(rig));
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 6; ++i) {
    strangers.push_back(rig.reach());
    REQUIRE(speak(strangers.back()));
    CHECK(reply(strangers.back()) == 'k');
  }
  CHECK(reply(callers.back()) == '\0');
  CHECK(is_left_alone(callers.front()));
}

TEST_CASE("of a tenant's known callers beyond its share the one heard longest ago gives way") {
  const ListenerRig rig(10min, "127.0.0.1:0", true, 100, 3);
  const UniqueFd other = known_caller(rig, "blue");
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(known_caller(rig, "red"));
  rig.listener->know(peer_name(callers[0]), "red");
  callers.push_back(known_caller(rig, "red"));
  CHECK(reply(callers[1]) == '\0');
  for (const std::size_t stays : {0U, 2U, 3U}) CHECK(is_left_alone(callers[stays]));
  CHECK(is_left_alone(other));
  CHECK(rig.listener->counters().crowded_out == 1);
}

TEST_CASE("a tenant that has most known callers gives way to others when there are no places") {
  const ListenerRig rig(10min, "127.0.0.1:0", true, 4, 3);
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(known_caller(rig, "red"));
  std::vector<UniqueFd> others;
  for (int i = 0; i < 2; ++i) others.push_back(known_caller(rig, "blue"));
  CHECK(reply(callers[0]) == '\0');
  CHECK(is_left_alone(callers[1]));
  for (const UniqueFd& other : others) CHECK(is_left_alone(other));
}

TEST_CASE("what a tenant's callers have sent without an end is bounded together") {
  const ListenerRig rig;
  std::vector<UniqueFd> callers;
  for (const char* const tenant : {"red", "red", "blue"}) {
    callers.push_back(known_caller(rig, tenant));
  }
  const std::string much(13'000, 'x');  // 8,905 or so beyond a call's
  for (const UniqueFd& caller : callers) {
    REQUIRE(::send(caller.get(), much.data(), much.size(), MSG_NOSIGNAL) == 13'000);
  }
  const auto guard = std::chrono::steady_clock::now() + 2min;
  while (is_left_alone(callers[0]) && is_left_alone(callers[1])) {
    REQUIRE(std::chrono::steady_clock::now() < guard);
    std::this_thread::yield();
  }
  CHECK(is_left_alone(callers[0]) != is_left_alone(callers[1]));
  CHECK(is_left_alone(callers[2]));
}

TEST_CASE("a stranger that sends more than its share is turned out, a known caller is not") {
  const ListenerRig rig;
  const UniqueFd caller = known_caller(rig);
  const UniqueFd stranger = rig.reach();
  REQUIRE(speak(stranger));
  REQUIRE(reply(stranger) == 'k');
  const std::string much(2000, 'x');
  REQUIRE(::send(caller.get(), much.data(), much.size(), MSG_NOSIGNAL) == 2000);
  REQUIRE(::send(stranger.get(), much.data(), much.size(), MSG_NOSIGNAL) == 2000);
  CHECK(reply(stranger) == '\0');
  char byte = 0;
  CHECK(::recv(caller.get(), &byte, 1, MSG_DONTWAIT) == -1);  // open, and nothing said
  CHECK((errno == EAGAIN || errno == EWOULDBLOCK));
}

TEST_CASE("a known caller whose messages do not end is turned out, one whose messages do is not") {
  const ListenerRig rig;
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 2; ++i) callers.push_back(known_caller(rig));
  const std::string much(30'000, 'x');
  rig.listener->count_message(peer_name(callers[0]), much.size());
  for (const UniqueFd& caller : callers) {
    REQUIRE(::send(caller.get(), much.data(), much.size(), MSG_NOSIGNAL) == 30'000);
  }
  CHECK(reply(callers[1]) == '\0');
  char byte = 0;
  CHECK(::recv(callers[0].get(), &byte, 1, MSG_DONTWAIT) == -1);  // open, and nothing said
  CHECK((errno == EAGAIN || errno == EWOULDBLOCK));
}

TEST_CASE("who has left while it waited in the queue is not served") {
  ListenerRig rig(10min, "127.0.0.1:0", false);
  std::vector<UniqueFd> gone;
  for (int i = 0; i < 5; ++i) {
    gone.push_back(rig.reach());
    REQUIRE(speak(gone.back()));
    REQUIRE(::shutdown(gone.back().get(), SHUT_WR) == 0);
  }
  const UniqueFd caller = rig.reach();
  REQUIRE(speak(caller));
  rig.start();
  CHECK(reply(caller) == 'k');
  for (const UniqueFd& one : gone) CHECK(reply(one) == '\0');
  CHECK(rig.listener->counters().handed_over == 1);
}

TEST_CASE("a name is listened on at all its addresses, IPv4 reaches the IPv6 wildcard") {
  for (const char* address : {"localhost:0", "[::]:0", "0.0.0.0:0"}) {
    INFO(address);
    const ListenerRig rig(10min, address);
    const UniqueFd caller = rig.reach();
    REQUIRE(speak(caller));
    CHECK(reply(caller) == 'k');
  }
}

}  // namespace phub::server

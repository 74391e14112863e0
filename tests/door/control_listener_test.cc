// The control port's listener, with an echo in gRPC's place.
#include "server/door/control_listener.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/transport/descriptors.h"
#include "server/door/pump/frame_head.h"

namespace phub::server {
namespace {

using namespace std::chrono_literals;

// Keeps what it is given, and says a frame without a payload at once.
struct Echo {
  std::mutex mutex;
  std::vector<UniqueFd> served;
  static void say(const UniqueFd& socket, const std::string& bytes) {
    const bool is_sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                         static_cast<ssize_t>(bytes.size());
    PHUB_CHECK(is_sent, "the pump is there");
  }
  // Of the last one, in gRPC's words.
  std::string peer() {
    const std::lock_guard lock(mutex);
    sockaddr_un name{};
    socklen_t length = sizeof(name);
    const int found =
        ::getpeername(served.back().get(), reinterpret_cast<sockaddr*>(&name), &length);
    PHUB_CHECK(found == 0, "the pump is there");
    return "unix-abstract:" +
           std::string(&name.sun_path[1], length - offsetof(sockaddr_un, sun_path) - 1);
  }
  // What has reached the last one until `enough`.
  std::string read_until(const std::function<bool(const std::string&)>& enough) {
    std::string all;
    const auto guard = std::chrono::steady_clock::now() + 2min;
    while (!enough(all)) {
      std::array<char, 4096> bytes{};
      PHUB_CHECK(std::chrono::steady_clock::now() < guard, "it comes in time");
      const ssize_t got = ::recv(served.back().get(), bytes.data(), bytes.size(), 0);
      if (got > 0) all.append(bytes.data(), static_cast<std::size_t>(got));
      if (got == 0) break;
      std::this_thread::yield();
    }
    return all;
  }
  void operator()(UniqueFd socket) {
    const std::lock_guard lock(mutex);
    say(socket, std::string(kFrameHeadBytes, '\0'));
    served.push_back(std::move(socket));
  }
};

struct ListenerRig {
  mutable Echo echo;
  ControlPeers peers;
  std::unique_ptr<ControlListener> listener;

  explicit ListenerRig(std::chrono::milliseconds first_byte = 10min,
                       const char* address = "127.0.0.1:0", bool starts = true,
                       std::size_t known_max = 100, std::size_t of_payer = 0) {
    listener = std::move(*ControlListener::create({.address = address,
                                                   .peers = &peers,
                                                   .silent_max = 8,
                                                   .strangers_max = 8,
                                                   .known_max = known_max,
                                                   .known_of_payer_max = of_payer,
                                                   .stranger_bytes_max = 1000,
                                                   .unfinished_bytes_max = 10'000,
                                                   .unfinished_of_payer_max = 15'000,
                                                   .first_byte = first_byte,
                                                   .greeting = 10min}));
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

bool send_all(const UniqueFd& socket, const std::string& bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool speak(const UniqueFd& socket) { return send_all(socket, std::string(kPreface)); }

std::string frame(FrameType type, int flags, char stream, const std::string& payload) {
  std::string bytes;
  for (const unsigned shift : {16U, 8U, 0U}) {
    bytes.push_back(static_cast<char>(payload.size() >> shift & 0xffU));
  }
  bytes.push_back(static_cast<char>(type));
  bytes.push_back(static_cast<char>(flags));
  return bytes + std::string(3, '\0') + stream + payload;
}

// A part of a request.
std::string data(std::size_t bytes) {
  return frame(FrameType::kData, 0, 1, std::string(bytes, 'x'));
}

// 'k': the echo's first words; 0: the end of the stream; '?': neither came.
char reply(const UniqueFd& socket) {
  std::array<char, kFrameHeadBytes> bytes{};
  const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return '?';
  return got == static_cast<ssize_t>(bytes.size()) ? 'k' : '\0';
}

// All that comes until the end of the stream.
std::string last_words(const UniqueFd& socket) {
  std::string all;
  std::array<char, 100> bytes{};
  while (true) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return all;
    all.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

// Open, and nothing said.
bool is_left_alone(const UniqueFd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == -1 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

UniqueFd known_caller(const ListenerRig& rig, const std::string& payer = "") {
  UniqueFd caller = rig.reach();
  REQUIRE(speak(caller));
  REQUIRE(reply(caller) == 'k');
  rig.listener->know(rig.echo.peer(), payer);
  return caller;
}

// With gRPC's name for it.
struct NamedCaller {
  UniqueFd socket;
  std::string peer;
};
NamedCaller named_caller(const ListenerRig& rig, const std::string& payer = "") {
  UniqueFd socket = known_caller(rig, payer);
  return {.socket = std::move(socket), .peer = rig.echo.peer()};
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
  CHECK(send_all(strangers.back(), "y"));
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
  std::vector<NamedCaller> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(named_caller(rig, "red"));
  rig.listener->know(callers[0].peer, "red");
  callers.push_back(named_caller(rig, "red"));
  CHECK(reply(callers[1].socket) == '\0');
  for (const std::size_t stays : {0U, 2U, 3U}) CHECK(is_left_alone(callers[stays].socket));
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
  const std::string much = data(13'000);  // 8,937 or so beyond a call's
  for (const UniqueFd& caller : callers) REQUIRE(send_all(caller, much));
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
  const std::string much = data(2000);
  REQUIRE(send_all(caller, much));
  REQUIRE(send_all(stranger, much));
  CHECK(reply(stranger) == '\0');
  CHECK(is_left_alone(caller));
}

TEST_CASE("a known caller whose messages do not end is turned out, one whose messages do is not") {
  const ListenerRig rig;
  std::vector<NamedCaller> callers;
  for (int i = 0; i < 2; ++i) callers.push_back(named_caller(rig));
  const std::string much = data(30'000);
  rig.listener->count_message(callers[0].peer, much.size());
  for (const NamedCaller& caller : callers) REQUIRE(send_all(caller.socket, much));
  CHECK(reply(callers[1].socket) == '\0');
  CHECK(is_left_alone(callers[0].socket));
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

TEST_CASE("gRPC's name of a connection leads to its address until gRPC has closed it") {
  const ListenerRig rig;
  UniqueFd caller = rig.reach();
  REQUIRE(speak(caller));
  REQUIRE(reply(caller) == 'k');
  sockaddr_in own{};
  socklen_t length = sizeof(own);
  REQUIRE(::getsockname(caller.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0);
  const std::string peer = rig.echo.peer();
  REQUIRE(rig.peers.find(peer));
  CHECK(rig.peers.find(peer)->address == "ipv4:127.0.0.1:" + std::to_string(ntohs(own.sin_port)));
  CHECK_FALSE(rig.peers.find(peer)->certificate);
  caller.reset();
  CHECK(rig.echo.read_until([](const auto&) { return false; }) == kPreface);  // up to the end
  CHECK(rig.peers.find(peer));
  rig.echo.served.clear();
  const auto guard = std::chrono::steady_clock::now() + 2min;
  while (rig.peers.find(peer)) {
    REQUIRE(std::chrono::steady_clock::now() < guard);
    std::this_thread::yield();
  }
}

TEST_CASE("a client that takes nothing and goes after gRPC has gone leaves nothing open") {
  ListenerRig rig;
  const std::size_t before = open_files();
  UniqueFd client = rig.reach();
  REQUIRE(speak(client));
  REQUIRE(reply(client) == 'k');
  const std::string frames(kFrameHeadBytes * 1000, '\0');
  int full = 0;  // times in a row that there was no room
  while (full < 10'000) {
    const ssize_t sent =
        ::send(rig.echo.served.back().get(), frames.data(), frames.size(), MSG_DONTWAIT);
    full = sent < 0 ? full + 1 : 0;
    std::this_thread::yield();
  }
  REQUIRE(send_all(client, data(500)));
  rig.echo.served.clear();
  client.reset();
  const auto guard = std::chrono::steady_clock::now() + 2min;
  while (open_files() != before) {
    REQUIRE(std::chrono::steady_clock::now() < guard);
    std::this_thread::yield();
  }
}

TEST_CASE("who does not speak HTTP/2 costs gRPC nothing") {
  const ListenerRig rig;
  const UniqueFd web = rig.reach();
  REQUIRE(send_all(web, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(reply(web) == '\0');
  CHECK(rig.listener->counters().handed_over == 0);
}

TEST_CASE("a header block without end is told why it ends") {
  const ListenerRig rig;
  const UniqueFd stranger = rig.reach();
  REQUIRE(speak(stranger));
  REQUIRE(reply(stranger) == 'k');
  REQUIRE(send_all(stranger, frame(FrameType::kHeaders, 0, 1, "x")));
  for (int i = 0; i < 9; ++i) send_all(stranger, frame(FrameType::kContinuation, 0, 1, "x"));
  const std::string enhance_your_calm("\0\0\0\1\0\0\0\x0b", 8);
  CHECK(last_words(stranger) == frame(FrameType::kGoAway, 0, 0, enhance_your_calm));
  CHECK(rig.listener->counters().unruly == 1);
}

TEST_CASE("pings wait until the replies to the first ones were sent on") {
  const ListenerRig rig;
  const UniqueFd stranger = rig.reach();
  REQUIRE(speak(stranger));
  REQUIRE(reply(stranger) == 'k');
  const std::string ping = frame(FrameType::kPing, 0, 0, std::string(8, 'p'));
  std::string pings;
  for (int i = 0; i < 20; ++i) pings += ping;
  REQUIRE(send_all(stranger, pings));
  const auto guard = std::chrono::steady_clock::now() + 2min;
  while (rig.listener->counters().held == 0) {
    REQUIRE(std::chrono::steady_clock::now() < guard);
    std::this_thread::yield();
  }
  const std::size_t first = kPreface.size() + 8 * ping.size();
  CHECK(rig.echo.read_until([&](const auto& all) { return all.size() >= first; }).size() == first);
  CHECK(is_left_alone(stranger));
  std::string replies;
  for (int i = 0; i < 8; ++i) replies += frame(FrameType::kPing, 1, 0, std::string(8, 'p'));
  Echo::say(rig.echo.served.back(), replies);
  CHECK(
      rig.echo.read_until([&](const auto& all) { return all.size() >= 8 * ping.size(); }).size() ==
      8 * ping.size());
}

}  // namespace phub::server

// What passes between a client and gRPC, through the control port's listener.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "tests/door/listener_rig.h"

namespace phub::server {

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

// The control port's listener: who has a place, and who gives way.
#include "server/door/control_listener.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/door/listener_rig.h"

namespace phub::server {

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

}  // namespace phub::server

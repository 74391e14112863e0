// Peers that are removed while writes are in their queues.
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/transport/fake_verbs/verbs_stations.h"

namespace phub::transport {

TEST_CASE("removing a peer whose writes cannot leave waits for nothing, and connects again") {
  const Clean clean;
  for (int i = 0; i < 3; ++i) {
    const auto pair = fresh_pair();
    fake_verbs::behaviour().hold = true;
    const Write write = room_write(pair->a, 1);
    REQUIRE(pair->a.endpoint->post(pair->a.peer, {&write, 1}) == 1);
    const std::uint64_t polls = fake_verbs::counters().polls;
    pair->a.endpoint->remove(pair->a.peer);
    CHECK(fake_verbs::counters().polls == polls);  // what is in the queue is not taken
    fake_verbs::behaviour().hold = false;
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("a removed peer's last writes leave while its endpoint goes on") {
  const Clean clean;
  {
    const auto pair = fresh_pair();
    auto& endpoint = static_cast<VerbsEndpoint&>(*pair->a.endpoint);
    fake_verbs::behaviour().hold = true;
    const std::vector<Write> writes(3, room_write(pair->a, 1));
    REQUIRE(endpoint.post(pair->a.peer, writes) == 3);
    endpoint.remove(pair->a.peer);
    fake_verbs::release();
    while (endpoint.leaving() > 0) {
    }
    const auto seen = collect(*pair->b.endpoint, 4);
    REQUIRE(seen.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) CHECK(seen[i].kind == CompletionKind::kArrived);
    CHECK(seen[3].loss == Loss::kClosed);
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("while a stuck peer is removed another's writes all arrive, in order") {
  const Clean clean;
  Station target;
  Station stuck;
  Station flooding;
  const PeerId stuck_at_target = join(target, stuck);
  const PeerId peer = join(flooding, target);
  std::vector<Write> writes;
  for (std::uint32_t i = 0; i < 48; ++i) writes.push_back(room_write(flooding.side, i, 64));
  REQUIRE(flooding.endpoint->post(peer, writes) == writes.size());
  fake_verbs::behaviour().hold = true;
  const Write write = room_write(target.side, 1);
  REQUIRE(target.endpoint->post(stuck_at_target, {&write, 1}) == 1);
  target.endpoint->remove(stuck_at_target);
  const auto seen = collect(*target.endpoint, writes.size());
  REQUIRE(seen.size() == writes.size());
  for (std::uint32_t i = 0; i < seen.size(); ++i) CHECK(seen[i].immediate == i);
  fake_verbs::behaviour().hold = false;
  std::vector<VerbsConnection> ended;
  ended.reserve(4);
  while (target.endpoint->leaving() > 0) {  // given up after its bound
  }
  target.endpoint->take_ended(ended);
  CHECK(ended.size() == 1);
}

TEST_CASE("what cannot leave is given up when its time is over, and not before") {
  using verbs::Departures;
  const Clean clean;
  Station from;
  Station to;
  VerbsConnection a = from.prepare();
  VerbsConnection b = to.prepare();
  a.peer = b.own;
  b.peer = a.own;
  REQUIRE(from.endpoint->connector().connect(a).ok());
  REQUIRE(to.endpoint->connector().connect(b).ok());
  fake_verbs::behaviour().hold = true;
  Departures departures(4);
  const auto now = Departures::Clock::now();
  departures.begin(std::move(a), {.tag = 1, .posted = 1, .retired = 0}, now);
  departures.look(now + Departures::kLongest - std::chrono::nanoseconds(1));
  CHECK(departures.leaving() == 1);
  departures.look(now + Departures::kLongest);
  CHECK(departures.leaving() == 0);
  std::vector<VerbsConnection> ended;
  ended.reserve(4);
  departures.take_ended(ended);
  CHECK(ended.size() == 1);
}

TEST_CASE("what is left of removed peers is for another thread to destroy") {
  const Clean clean;
  const auto pair = fresh_pair();
  auto& endpoint = static_cast<VerbsEndpoint&>(*pair->a.endpoint);
  const int objects = fake_verbs::live_objects();
  endpoint.remove(pair->a.peer);
  while (endpoint.leaving() > 0) {
  }
  CHECK(fake_verbs::live_objects() == objects);
  {
    std::vector<VerbsConnection> ended;
    ended.reserve(4);
    endpoint.take_ended(ended);
    CHECK(ended.size() == 1);
  }
  CHECK(fake_verbs::live_objects() == objects - 1);  // the queue pair
}

}  // namespace phub::transport

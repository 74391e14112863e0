// Jobs with a quorum on a core: whose replies go when, what time completes, who is let go.
#include <catch2/catch.hpp>

#include "tests/support/server/streams_rig.h"

namespace phub::server {
namespace {

using testing::StreamsJob;
using testing::StreamsRig;

// Time that stands still until the test says otherwise; a tick is a nanosecond.
class HandTime final : public TickSource {
 public:
  std::uint64_t now() override { return time_; }
  void pass(std::chrono::milliseconds time) {
    time_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
  }

 private:
  std::uint64_t time_ = 1'000'000;
};

constexpr std::chrono::milliseconds kGrace{20};

struct Rig {
  HandTime time;
  StreamsRig streams{16, &time};

  StreamsJob& add(std::uint32_t workers, const RoundPolicy& policy) {
    return streams.add({.workers = workers, .chunks = 2, .rounds = policy});
  }
  std::vector<StreamsJob::Reply> replies(StreamsJob& job, std::uint32_t worker) {
    REQUIRE(streams.run());
    return job.take_replies(worker);
  }
};

}  // namespace

TEST_CASE("the others wait for one that stops as long as the grace, and no longer") {
  Rig rig;
  StreamsJob& job = rig.add(3, {.quorum = 2, .grace_ms = 20});
  job.push(0, 0, 1.0F);
  job.push(1, 0, 2.0F);
  CHECK(rig.replies(job, 0).empty());
  rig.time.pass(kGrace - std::chrono::milliseconds(1));
  CHECK(rig.replies(job, 0).empty());
  rig.time.pass(std::chrono::milliseconds(1));
  const auto replies = rig.replies(job, 0);
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].value == 3.0F);
  CHECK(rig.replies(job, 1).size() == 1);
  CHECK(rig.replies(job, 2).empty());
  // What it had begun comes late.
  job.push(2, 0, 4.0F);
  CHECK(rig.replies(job, 2).size() == 1);
  CHECK(job.on_core->shard.members.rounds()->late()[2].dropped.value() == 1);
  CHECK(job.on_core->staging->in_use() == 0);
}

TEST_CASE("graces end in the order in which they began, of one job and of several") {
  Rig rig;
  StreamsJob& one = rig.add(2, {.quorum = 1, .grace_ms = 20});
  StreamsJob& other = rig.add(2, {.quorum = 1, .grace_ms = 10});
  one.push(0, 1);
  REQUIRE(rig.streams.run());
  rig.time.pass(std::chrono::milliseconds(5));
  one.push(0, 0);
  other.push(0, 0);
  REQUIRE(rig.streams.run());
  rig.time.pass(std::chrono::milliseconds(10));
  CHECK(rig.replies(other, 0).size() == 1);
  CHECK(rig.replies(one, 0).empty());
  rig.time.pass(std::chrono::milliseconds(5));
  const auto first = rig.replies(one, 0);
  REQUIRE(first.size() == 1);
  CHECK(first[0].slot == 1);
  rig.time.pass(std::chrono::milliseconds(5));
  CHECK(rig.replies(one, 0).size() == 1);
}

TEST_CASE("workers who wait for each other go on when their patience is over") {
  Rig rig;
  StreamsJob& job = rig.add(3, {.quorum = 2, .patience_ms = 20});
  job.push(0, 0, 1.0F);  // chunk 0 waits for another, and chunk 1 as well
  job.push(1, 1, 2.0F);
  REQUIRE(rig.streams.run());
  rig.time.pass(kGrace - std::chrono::milliseconds(1));
  CHECK(rig.replies(job, 0).empty());
  rig.time.pass(std::chrono::milliseconds(1));
  CHECK(rig.replies(job, 0).size() == 1);
  CHECK(rig.replies(job, 1).size() == 1);
}

TEST_CASE("a round that all have pushed needs no grace") {
  Rig rig;
  StreamsJob& job = rig.add(2, {.quorum = 1, .grace_ms = 20});
  job.push(0, 0);
  REQUIRE(rig.streams.run());
  job.push(1, 0);
  CHECK(rig.replies(job, 0).size() == 1);
  CHECK(rig.replies(job, 1).size() == 1);
}

TEST_CASE("a push before the reply to the last one ends that worker, by name, and not its job") {
  Rig rig;
  StreamsJob& job = rig.add(3, {.quorum = 1, .staleness = 0, .late = LatePushes::kAdd});
  job.push(0, 0, 1.0F);
  job.push(1, 0, 1.0F);
  CHECK(rig.replies(job, 0).empty());  // worker 2 is behind
  job.push(0, 0, 1.0F);                // not yet allowed
  CHECK(rig.replies(job, 1).empty());
  const auto event = rig.streams.core->next_event();
  REQUIRE(event);
  CHECK(event->worker == 0);
  CHECK(event->reason == "it pushed a chunk before it had the reply to its last push of it");
  CHECK(event->goes_on);
  CHECK(rig.streams.core->drops().value(Drop::kDuplicatePush) == 1);
  job.push(2, 0, 5.0F);
  const auto replies = rig.replies(job, 1);
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].value == 5.0F);
}

TEST_CASE("a job with a quorum goes on without a worker that is gone") {
  Rig rig;
  StreamsJob& job = rig.add(3, {.quorum = 2, .grace_ms = 20});
  job.push(0, 0, 1.0F);
  job.push(1, 0, 2.0F);
  REQUIRE(rig.streams.run());
  job.sockets[2].reset();
  CHECK(rig.replies(job, 0).size() == 1);  // there is nobody more to wait for
  CHECK(rig.streams.core->next_event()->goes_on);
  job.push(0, 1);
  job.push(1, 1);
  CHECK(rig.replies(job, 1).size() == 2);
}

// What a push costs depends on how many are dropped and how many share an update.
TEST_CASE("a job with a quorum makes pushes neither cheaper nor dearer for other jobs") {
  Rig rig;
  StreamsJob& plain = rig.streams.add({.workers = 2, .chunks = 2});
  StreamsJob& alike = rig.streams.add({.workers = 2, .chunks = 2});
  StreamsJob& one = rig.add(2, {.quorum = 1});
  StreamsJob& other = rig.add(2, {.quorum = 1});
  const auto prices = [](const StreamsJob& job, std::uint32_t worker = 0) {
    return job.on_core->connections[worker]->prices;
  };
  CHECK(prices(plain) == prices(alike));
  CHECK(prices(one) == prices(one, 1));
  CHECK(prices(one) != prices(plain));
  CHECK(prices(one) != prices(other));
}

TEST_CASE("a worker that was lost elsewhere is let go here") {
  Rig rig;
  StreamsJob& job = rig.add(3, {.quorum = 1, .staleness = 0, .late = LatePushes::kAdd});
  job.push(0, 0);
  job.push(1, 0);
  CHECK(rig.replies(job, 0).empty());
  rig.streams.core->lose(job.on_core.get(), 2, "it was lost elsewhere");
  rig.streams.core->lose(job.on_core.get(), 2, "it was lost elsewhere");  // nothing more
  CHECK(rig.replies(job, 0).size() == 1);
  CHECK(rig.streams.core->next_event()->worker == 2);
  CHECK_FALSE(rig.streams.core->next_event());
}

}  // namespace phub::server

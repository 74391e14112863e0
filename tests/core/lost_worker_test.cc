// A worker that is lost while its pushes wait for their turn: nothing of it is touched any more,
// whoever comes next on the same core.
#include <catch2/catch.hpp>

#include "tests/support/server/slow_clock.h"
#include "tests/support/server/streams_rig.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kChunks = 32;

// Two jobs that wait for turns, one of which loses a worker.
struct Two {
  Two(StreamsRig& rig, std::uint32_t pushes)
      : unlucky(rig.add({.chunks = kChunks, .tenant = 1})),
        other(rig.add({.chunks = kChunks, .tenant = 2})) {
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) {
      if (slot < pushes) unlucky.push(0, slot);
      other.push(0, slot);
    }
  }
  // Closes the worker's stream; true when the core has noticed while pushes of its job wait.
  bool lose(const StreamsRig& rig, int rounds_before) {
    for (int i = 0; i < rounds_before; ++i) rig.core->run_once();
    unlucky.sockets[0].reset();
    for (int i = 0; i < 100; ++i) {
      rig.core->run_once();
      if (rig.core->next_event()) return !unlucky.on_core->arrivals.empty();
    }
    return false;
  }

  StreamsJob& unlucky;
  StreamsJob& other;
};

}  // namespace

TEST_CASE("a lost worker's pushes may wait while its connection's id is used again") {
  SlowClock clock(10'000);  // a few services are a turn
  StreamsRig rig(8, &clock);
  int waited = 0;
  for (int times = 0; times < 200; ++times) {
    Two two(rig, 12 + static_cast<std::uint32_t>(times % 20));
    waited += two.lose(rig, times % 7) ? 1 : 0;
    StreamsJob& next = rig.add({.chunks = kChunks, .tenant = 3});
    for (const std::uint32_t worker : {0U, 1U}) next.push(worker, 5, 2.0F);
    REQUIRE(rig.run());
    CHECK(next.replies(0) == 1);
    CHECK(next.replies(1) == 1);
    // The other worker's stay in their sums; those that waited, and those that nobody will look at,
    // are back.
    CHECK(two.unlucky.on_core->staging->in_use() <= kChunks);
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) two.other.push(1, slot);
    REQUIRE(rig.run());
    CHECK(two.other.replies(1) == kChunks);
    for (const StreamsJob* job : {&two.unlucky, &two.other, &next}) rig.remove(*job);
    while (rig.core->next_event()) {
    }
  }
  INFO(waited << " of 200");
  CHECK(waited > 0);
}

TEST_CASE("what comes behind a push that ends a connection gives its buffers back") {
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 2, .chunks = 4});
  std::vector<std::byte> stream;
  for (int times = 0; times < 12; ++times) {
    const auto push = job.frame(0, 1.0F);
    stream.insert(stream.end(), push.begin(), push.end());
  }
  REQUIRE(job.send(0, stream) == stream.size());
  REQUIRE(rig.run());
  CHECK(rig.core->drops().value(server::Drop::kDuplicatePush) == 1);
  CHECK(job.on_core->staging->in_use() == 0);
}

TEST_CASE("more pushes of a worker than its job can have on their way end its connection") {
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 2, .chunks = 4, .chunk_bytes = 64});
  const auto push = job.frame(0, 1.0F);
  for (const std::uint32_t worker : {0U, 1U}) {
    for (int times = 0; times < 40; ++times) REQUIRE(job.send(worker, push) == push.size());
  }
  REQUIRE(rig.run());
  CHECK(rig.core->drops().value(server::Drop::kDuplicatePush) > 0);
  CHECK(job.on_core->staging->in_use() == 0);
}

TEST_CASE("a push of another length than its chunk's is refused before it takes a buffer") {
  for (const int more : {-4, 4}) {
    StreamsRig rig;
    StreamsJob& job = rig.add({.workers = 1, .chunks = 4});
    const auto push = job.frame(0, 1.0F);
    transport::FrameHeader header = {};
    std::memcpy(&header, push.data(), sizeof(header));
    header.bytes = static_cast<std::uint32_t>(static_cast<int>(header.bytes) + more);
    header.check = transport::frame_check(header.immediate, header.bytes);
    REQUIRE(job.send(0, std::as_bytes(std::span(&header, 1))) == sizeof(header));
    REQUIRE(rig.run());
    CHECK(rig.core->next_event());
    CHECK(job.on_core->staging->in_use() == 0);
  }
}

TEST_CASE("a core without a thread ends while a push is half read") {
  auto job = std::make_unique<StreamsJob>(StreamsJobOptions{.workers = 1});
  server::CoreOptions options;
  options.own_thread = false;
  auto core = std::move(*server::Core::create(options));
  auto [own, cores] = transport::stream_pair();
  job->sockets[0] = std::move(own);
  REQUIRE(core->attachments().connect_tcp(job->on_core.get(), 0, std::move(cores)).ok());
  const auto frame = job->frame(0, 1.0F);
  REQUIRE(job->send(0, std::span(frame).first(100)) == 100);
  core->run_once();
  CHECK(job->on_core->staging->in_use() == 1);
  core.reset();
  CHECK(job->on_core->staging->in_use() == 0);
}

}  // namespace phub::testing

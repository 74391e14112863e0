// How long one round of a core is, by a clock that the test turns.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <catch2/catch.hpp>

#include "tests/support/server/slow_clock.h"
#include "tests/support/server/streams_rig.h"

namespace phub::testing {

TEST_CASE("a job that is alone is served for a turn at a time, whatever waits") {
  constexpr std::uint32_t kChunks = 1000;
  SlowClock clock(10'000);
  StreamsRig rig(8, &clock);
  StreamsJob& job = rig.add({.workers = 1, .chunks = kChunks, .chunk_bytes = 32 * 1024});
  server::JobOnCore& on_core = *job.on_core;
  // As it is when others have gone that it took turns with.
  for (std::uint32_t slot = 1; slot < kChunks; ++slot) {
    server::Connection& connection = *on_core.connections[0];
    ++connection.queued;
    on_core.arrivals.push({.connection = &connection,
                           .data = on_core.staging->take_for_push(),
                           .immediate = wire::immediate(slot, job.layout.epoch),
                           .bytes = on_core.shard.push_bytes(slot),
                           .arrived = clock.now()});
  }
  job.push(0, 0);
  std::uint64_t most = 0;
  std::uint64_t before = 0;
  for (int rounds = 0; rounds < 10'000 && on_core.shard.updates.chunks_completed.value() < kChunks;
       ++rounds) {
    CHECK(rig.core->run_once());
    const std::uint64_t now = on_core.shard.updates.chunks_completed.value();
    most = std::max(most, now - before);
    before = now;
  }
  CHECK(on_core.shard.updates.chunks_completed.value() == kChunks);
  CHECK(most <= 128);  // ten looks at the clock
}

// Both in step, so that nobody is ahead and held back.
TEST_CASE("a job that is alone is not read far ahead of what its core serves") {
  constexpr std::uint32_t kChunks = 1000;
  SlowClock clock(1'000'000);  // a turn is over at the first look
  StreamsRig rig(8, &clock);
  StreamsJob& job = rig.add({.workers = 2, .chunks = kChunks, .chunk_bytes = 32 * 1024});
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) {
    for (const std::uint32_t worker : {0U, 1U}) job.push_later(worker, slot);
  }
  std::size_t most = 0;
  std::size_t replies = 0;
  for (int rounds = 0; rounds < 100'000 && replies < kChunks; ++rounds) {
    for (const std::uint32_t worker : {0U, 1U}) job.pump(worker);
    rig.core->run_once();
    most = std::max(most, job.on_core->staging->in_use());
    replies += job.replies(0);
    job.replies(1);
  }
  CHECK(replies == kChunks);
  CHECK(most <= 64);  // twice what is read at once
}

// Each look takes ten turns, so that a byte costs its tenant as many.
TEST_CASE("reading that brings nothing whole is paid for") {
  constexpr std::uint32_t kChunks = 256;
  SlowClock clock(1'000'000);
  StreamsRig rig(8, &clock);
  StreamsJob& trickle =
      rig.add({.workers = 1, .chunks = 1, .chunk_bytes = kMaxChunkBytes, .tenant = 1});
  StreamsJob& other = rig.add({.workers = 1, .chunks = kChunks, .tenant = 2, .weight = 16});
  trickle.push_later(0, 0);
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) other.push_later(0, slot);
  int rounds = 0;
  int reads = 0;
  for (std::size_t replies = 0; replies < kChunks && rounds < 4000; ++rounds) {
    int unread = 0;
    REQUIRE(::ioctl(trickle.sockets[0].get(), SIOCOUTQ, &unread) == 0);
    if (unread == 0) ++reads;
    trickle.pump(0, 1);
    other.pump(0);
    rig.core->run_once();
    replies += other.replies(0);
  }
  CHECK(reads < rounds / 6);  // ten in forty if it cost nothing
}

}  // namespace phub::testing

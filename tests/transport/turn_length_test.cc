// How long one round of a core is, by a clock that the test turns.
#include <catch2/catch.hpp>

#include "tests/support/streams_rig.h"

namespace phub::testing {
namespace {

// Every look at it takes ten microseconds.
struct SlowClock final : TickSource {
  std::uint64_t now() override { return time += 10'000; }
  std::uint64_t time = 0;
};

}  // namespace

TEST_CASE("a job that is alone is served for a turn at a time, whatever waits") {
  constexpr std::uint32_t kChunks = 1000;
  SlowClock clock;
  StreamsRig rig(8, &clock);
  StreamsJob& job = rig.add({.workers = 1, .chunks = kChunks, .chunk_bytes = 32 * 1024});
  server::Shard& shard = *job.shard;
  // As it is when others have gone that it took turns with.
  for (std::uint32_t slot = 1; slot < kChunks; ++slot) {
    server::Connection& connection = *shard.connections[0];
    ++connection.queued;
    shard.arrivals->push({.connection = &connection,
                          .data = shard.take_push_buffer(),
                          .immediate = wire::immediate(slot, job.shape.epoch),
                          .bytes = shard.push_bytes(slot),
                          .arrived = clock.now()});
  }
  job.push(0, 0);
  std::uint64_t most = 0;
  std::uint64_t before = 0;
  for (int rounds = 0; rounds < 10'000 && shard.chunks_completed.value() < kChunks; ++rounds) {
    CHECK(rig.core->run_once());
    const std::uint64_t now = shard.chunks_completed.value();
    most = std::max(most, now - before);
    before = now;
  }
  CHECK(shard.chunks_completed.value() == kChunks);
  CHECK(most <= 128);  // ten looks at the clock
}

}  // namespace phub::testing

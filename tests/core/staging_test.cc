// What a core has in staging buffers is what admission counted, whoever of a job is ahead.
#include <catch2/catch.hpp>

#include "server/job/footprint.h"
#include "tests/support/server/streams_rig.h"

namespace phub::testing {
namespace {

// The worker does nothing while the others push all they may.
void stall(StreamsRig& rig, StreamsJob& job, std::uint32_t worker) {
  for (std::uint32_t w = 0; w < job.layout.workers; ++w) {
    if (w == worker) continue;
    for (std::uint32_t slot = 0; slot < job.on_core->shard.chunks(); ++slot)
      job.push_later(w, slot);
  }
  for (int rounds = 0; rounds < 3000; ++rounds) {
    for (std::uint32_t w = 0; w < job.layout.workers; ++w) job.pump(w);
    rig.core->run_once();
  }
}

}  // namespace

TEST_CASE("while workers are held back a job stages no more than was admitted") {
  for (const std::uint32_t workers : {1U, 2U, 8U, 64U}) {
    for (const std::uint32_t chunks : {3U, 300U}) {
      INFO(workers << " workers, " << chunks << " chunks");
      StreamsRig rig;
      StreamsJob& job = rig.add({.workers = workers, .chunks = chunks, .chunk_bytes = 32 * 1024});
      stall(rig, job, 0);  // no sum can begin without it
      CHECK(job.on_core->staging->touched_bytes() <= server::bytes_of_staging(job.layout));
      if (workers > 1)
        CHECK(4 * job.on_core->staging->touched_bytes() > server::bytes_of_staging(job.layout));
    }
  }
}

TEST_CASE("a worker that is alone stages what is read at once") {
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 1, .chunks = 300, .chunk_bytes = 32 * 1024});
  StreamsJob& other = rig.add({.workers = 1, .chunks = 300, .chunk_bytes = 4096, .tenant = 1});
  for (std::uint32_t slot = 0; slot < 300; ++slot) {
    job.push_later(0, slot);
    other.push_later(0, slot);
  }
  for (int rounds = 0; rounds < 3000; ++rounds) {
    for (StreamsJob* each : {&job, &other}) {
      each->pump(0);
      each->replies(0);
    }
    rig.core->run_once();
  }
  CHECK(job.on_core->shard.updates.chunks_completed.value() == 300);
  CHECK(job.on_core->staging->touched_bytes() <= server::bytes_of_staging(job.layout));
  CHECK(server::bytes_of_staging(job.layout) < std::size_t{2} << 20);
}

}  // namespace phub::testing

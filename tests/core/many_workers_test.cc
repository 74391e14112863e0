// A job of as many workers as there may be, on one core.
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "tests/support/server/streams_rig.h"

namespace phub::testing {

TEST_CASE("a job of 1,024 workers sums on one core, beside another") {
  rlimit files = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  constexpr std::uint32_t kChunks = 3;
  constexpr float kRounds = 3;
  StreamsRig rig(kMaxWorkers + 2);
  StreamsJob& job = rig.add({.workers = kMaxWorkers, .chunks = kChunks, .tenant = 1});
  StreamsJob& other = rig.add({.workers = 2, .chunks = kChunks, .tenant = 2});
  for (float round = 1; round <= kRounds; ++round) {
    for (StreamsJob* const each : {&job, &other}) {
      for (std::uint32_t worker = 0; worker < each->layout.workers; ++worker) {
        for (std::uint32_t slot = 0; slot < kChunks; ++slot) each->push(worker, slot, round);
      }
    }
    REQUIRE(rig.run());
    for (StreamsJob* const each : {&job, &other}) {
      for (std::uint32_t worker = 0; worker < each->layout.workers; ++worker) {
        const auto replies = each->take_replies(worker, 4096);
        REQUIRE(replies.size() == kChunks);
        for (const auto& reply : replies) {
          const bool is_right = reply.value == round * static_cast<float>(each->layout.workers);
          REQUIRE((reply.is_even && is_right));
        }
      }
    }
  }
  CHECK(job.on_core->staging->in_use() == 0);
}

}  // namespace phub::testing

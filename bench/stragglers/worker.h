// One worker of a measurement of stragglers: sleeps as long as it would compute, pushes its keys
// and waits for them, for a while. The hidden subcommand "straggler-worker". Main thread of its
// process.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/base/worker_loop.h"
#include "bench/processes/work.h"
#include "bench/stragglers/slowness.h"
#include "common/base/round_policy.h"

namespace phub::bench::stragglers {

// What a worker does next, in a job of its own.
struct Stretch {
  std::string job;
  RoundPolicy rounds;
  Slowness slowness;
  double compute = 0.0;  // seconds of each round
  double seconds = 0.0;  // no round begins after these
};
// One line without blanks at its ends, and back.
std::string text_of(const Stretch& stretch);
Stretch stretch_of(const std::string& text);

// What came of it.
struct Done {
  std::uint64_t rounds = 0;
  double seconds = 0.0;  // from the first to the end of the last
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Done, rounds, seconds)

Status run_straggler_worker(const WorkerHello& hello, const ServedWork& served);

}  // namespace phub::bench::stragglers

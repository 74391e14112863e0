// "phub-bench stragglers": what one slow worker costs the others, by the policy of rounds.
//
// Belongs to the bench's main thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "bench/processes/work.h"
#include "bench/stragglers/slowness.h"
#include "common/base/round_policy.h"

namespace phub::bench::stragglers {

// all: every worker's push; backup: all but `backups`, late ones dropped; ssp: asynchronous within
// a staleness; async: asynchronous.
inline constexpr std::string_view kPolicyWords[] = {"all", "backup", "ssp", "async"};

struct StragglersOptions {
  Work work;
  Slowness slowness;
  std::vector<std::string> policies = {"all", "backup", "ssp", "async"};  // of kPolicyWords
  std::uint32_t backups = 1;
  std::uint32_t grace_ms = 0;
  std::uint32_t staleness = 3;
  double compute = 0.02;  // seconds of each round
  double seconds = 4.0;   // of each policy in each block
  unsigned blocks = 5;
  bool json = false;
};

// REQUIRES: one of kPolicyWords, and fewer backups than workers.
RoundPolicy rounds_of(const StragglersOptions& options, std::string_view policy);

// Prints a table, or a JSON object for each policy. Each is beside two others in the same block:
// all workers' rounds without anybody slow, and with.
Status run_stragglers(const StragglersOptions& options);

}  // namespace phub::bench::stragglers

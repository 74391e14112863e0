#include "common/steps/recent_steps.h"

#include <cstdint>
#include <utility>

namespace phub::client {
namespace {

constexpr std::uint64_t kPartNanoseconds = 15'000'000'000;

// REQUIRES: check succeeds for both, or they are of no step.
StepWaits sum_of(const StepWaits& before, const StepWaits& after) {
  return {.steps = before.steps + after.steps,
          .step_ns = before.step_ns + after.step_ns,
          .input_ns = before.input_ns + after.input_ns,
          .exchange_ns = before.exchange_ns + after.exchange_ns,
          .samples = before.samples + after.samples,
          .from_source = before.from_source + after.from_source,
          .from_disk = before.from_disk + after.from_disk,
          .from_memory = before.from_memory + after.from_memory,
          .from_peers = before.from_peers + after.from_peers,
          .input_threads = after.input_threads,
          .cpus = after.cpus};
}

}  // namespace

void RecentSteps::add(const StepWaits& times) {
  const std::lock_guard lock(mutex_);
  if (current_.step_ns >= kPartNanoseconds) before_ = std::exchange(current_, {});
  const StepWaits filled = sum_of(current_, times);
  if (check(sum_of(before_, filled)).ok()) {
    current_ = filled;
  } else {  // together they are too much for a report
    before_ = {};
    current_ = times;
  }
}

std::optional<StepWaits> RecentSteps::sum() const {
  const std::lock_guard lock(mutex_);
  if (current_.steps == 0) return {};
  return sum_of(before_, current_);
}

}  // namespace phub::client

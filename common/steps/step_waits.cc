#include "common/steps/step_waits.h"

#include <cmath>
#include <string>

#include "proto/job.pb.h"

namespace phub {
namespace {

constexpr std::uint64_t kCountMax = std::uint64_t{1} << 48;
constexpr std::uint64_t kNanosecondsMax = std::uint64_t{1} << 53;  // 104 days; doubles are exact
constexpr std::uint64_t kThreadsMax = std::uint64_t{1} << 20;

Status refused(const char* field, const std::string& allowed) {
  return {Code::kInvalidArgument, "step_waits." + std::string(field) + ": " + allowed};
}

Status check_most(const char* field, std::uint64_t number, std::uint64_t most) {
  if (number <= most) return {};
  return refused(field, std::to_string(number) + ", allowed are at most " + std::to_string(most));
}

Result<std::uint64_t> nanoseconds(const char* field, double seconds) {
  constexpr double kPerSecond = 1e9;
  constexpr double kMost = static_cast<double>(kNanosecondsMax) / kPerSecond;
  if (std::isfinite(seconds) && seconds >= 0.0 && seconds <= kMost) {
    return static_cast<std::uint64_t>(seconds * kPerSecond);
  }
  return refused(field, std::to_string(seconds) + " s, allowed are 0 to " + std::to_string(kMost));
}

}  // namespace

Status check(const StepWaits& times) {
  if (times.steps == 0) return refused("steps", "0, and there are no times without a step");
  if (times.step_ns == 0) return refused("step_ns", "0, and no step takes no time");
  PHUB_RETURN_IF_ERROR(check_most("steps", times.steps, kCountMax));
  PHUB_RETURN_IF_ERROR(check_most("step_ns", times.step_ns, kNanosecondsMax));
  if (times.input_ns > times.step_ns) {
    return refused("input_ns", std::to_string(times.input_ns) + " is more than step_ns, which is " +
                                   std::to_string(times.step_ns));
  }
  if (times.exchange_ns > times.step_ns - times.input_ns) {
    return refused("exchange_ns", std::to_string(times.exchange_ns) + " and input_ns, " +
                                      std::to_string(times.input_ns) +
                                      ", are together more than step_ns, which is " +
                                      std::to_string(times.step_ns));
  }
  PHUB_RETURN_IF_ERROR(check_most("samples", times.samples, kCountMax));
  PHUB_RETURN_IF_ERROR(check_most("from_source", times.from_source, kCountMax));
  PHUB_RETURN_IF_ERROR(check_most("from_disk", times.from_disk, kCountMax));
  PHUB_RETURN_IF_ERROR(check_most("from_memory", times.from_memory, kCountMax));
  PHUB_RETURN_IF_ERROR(check_most("from_peers", times.from_peers, kCountMax));
  PHUB_RETURN_IF_ERROR(check_most("input_threads", times.input_threads, kThreadsMax));
  return check_most("cpus", times.cpus, kThreadsMax);
}

Result<StepWaits> step_waits_from(std::uint64_t steps, std::uint64_t samples, double seconds,
                                  double input_seconds, double exchange_seconds) {
  StepWaits times{.steps = steps, .samples = samples};
  PHUB_ASSIGN_OR_RETURN(times.step_ns, nanoseconds("step_ns", seconds));
  PHUB_ASSIGN_OR_RETURN(times.input_ns, nanoseconds("input_ns", input_seconds));
  PHUB_ASSIGN_OR_RETURN(times.exchange_ns, nanoseconds("exchange_ns", exchange_seconds));
  // Parts that fill the whole may be rounded up to more than it.
  constexpr std::uint64_t kRounding = 2;
  const std::uint64_t parts = times.input_ns + times.exchange_ns;
  if (parts > times.step_ns && parts <= times.step_ns + kRounding) times.step_ns = parts;
  PHUB_RETURN_IF_ERROR(check(times));
  return times;
}

Result<StepWaits> step_waits_from(const control::StepWaits& message) {
  const StepWaits times{.steps = message.steps(),
                        .step_ns = message.step_ns(),
                        .input_ns = message.input_ns(),
                        .exchange_ns = message.exchange_ns(),
                        .samples = message.samples(),
                        .from_source = message.from_source(),
                        .from_disk = message.from_disk(),
                        .from_memory = message.from_memory(),
                        .from_peers = message.from_peers(),
                        .input_threads = message.input_threads(),
                        .cpus = message.cpus()};
  PHUB_RETURN_IF_ERROR(check(times));
  return times;
}

void fill(const StepWaits& times, control::StepWaits& message) {
  message.set_steps(times.steps);
  message.set_step_ns(times.step_ns);
  message.set_input_ns(times.input_ns);
  message.set_exchange_ns(times.exchange_ns);
  message.set_samples(times.samples);
  message.set_from_source(times.from_source);
  message.set_from_disk(times.from_disk);
  message.set_from_memory(times.from_memory);
  message.set_from_peers(times.from_peers);
  message.set_input_threads(times.input_threads);
  message.set_cpus(times.cpus);
}

}  // namespace phub

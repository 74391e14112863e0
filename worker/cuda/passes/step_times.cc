#include "worker/cuda/passes/step_times.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "worker/cuda/lowered/step_cost.h"

namespace phub::nn::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Larger than a device's caches; each copy reads and writes half of it.
constexpr std::size_t kCopied = std::size_t{256} << 20U;

Result<double> copied_bytes_per_second(Runtime& runtime) {
  constexpr int kCopies = 10;
  PHUB_ASSIGN_OR_RETURN(const BlockPointer block, runtime.device_memory(kCopied, "a copy"));
  const auto copy = [&](int times) -> Status {
    for (int i = 0; i < times; ++i) {
      PHUB_RETURN_IF_ERROR(runtime.copy(block->address, block->as<std::byte>(kCopied / 2),
                                        kCopied / 2, Stream::kCompute));
    }
    return runtime.synchronise(Stream::kCompute);
  };
  PHUB_RETURN_IF_ERROR(copy(1));
  const auto begin = Clock::now();
  PHUB_RETURN_IF_ERROR(copy(kCopies));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return kCopies * static_cast<double>(kCopied) / seconds;
}

}  // namespace

Result<DeviceProfile> time_steps(Runtime& runtime, LoweredRunner& runner, std::uint32_t passes) {
  if (passes == 0) return Status(Code::kInvalidArgument, "--steps: is 0; give at least 1");
  DeviceProfile profile;
  PHUB_ASSIGN_OR_RETURN(profile.bytes_per_second, copied_bytes_per_second(runtime));
  std::vector<std::vector<double>> seconds[2];  // by pass, then by time, then by step
  // In turns, as in training: backward reads what forward left.
  for (std::uint32_t i = 0; i < passes; ++i) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      PHUB_ASSIGN_OR_RETURN(auto times, runner.time(pass));
      seconds[pass == Pass::kForward ? 0 : 1].push_back(std::move(times));
    }
  }
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const std::vector<Step>& steps = steps_of(runner.lowered(), pass);
    const bool is_forward = pass == Pass::kForward;
    for (std::size_t at = 0; at < steps.size(); ++at) {
      std::vector<double> all;
      for (const auto& times : seconds[is_forward ? 0 : 1]) all.push_back(times[at]);
      const StepCost cost = cost_of(runner.lowered(), steps[at]);
      profile.steps.push_back({.name = steps[at].name,
                               .pass = is_forward ? "forward" : "backward",
                               .seconds = median(std::move(all)),
                               .bytes = cost.bytes,
                               .flops = cost.flops});
    }
  }
  return profile;
}

}  // namespace phub::nn::cuda

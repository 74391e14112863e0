// Which engine of cuDNN runs a graph, and how it is tuned: what the autotuning cache remembers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace phub::nn::cuda {

// Numbers mean the same within one version of cuDNN only. A plan's own JSON would be another way to
// remember; cuDNN 9.19 crashes when it reads that without a device.
struct EngineChoice {
  std::int64_t engine = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  // type, value

  bool operator==(const EngineChoice&) const = default;
};

// An engine configuration that cuDNN proposes.
struct EngineCandidate {
  EngineChoice choice;
  bool compiled_at_run_time = false;  // takes a second or two to plan
};

}  // namespace phub::nn::cuda

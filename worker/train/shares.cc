#include "worker/train/shares.h"

#include <cmath>
#include <numeric>
#include <string>

#include "common/base/check.h"

namespace phub::train {

Result<std::vector<std::uint32_t>> divide_batch(std::span<const float> weights,
                                                std::uint64_t global, std::uint32_t unit) {
  PHUB_CHECK(global % unit == 0, "whole units are divided");
  const std::uint64_t units = global / unit;
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::uint32_t> parts;
  double before = 0.0;
  std::uint64_t begin = 0;
  // Bounds are rounded, not parts: so they add up.
  for (std::size_t worker = 0; worker < weights.size(); ++worker) {
    before += static_cast<double>(weights[worker]);
    const bool is_last = worker + 1 == weights.size();
    const auto end =
        is_last
            ? units
            : static_cast<std::uint64_t>(std::llround(before / all * static_cast<double>(units)));
    if (end <= begin) {
      return Status(Code::kInvalidArgument,
                    "train.share: of " + std::to_string(global) + " images in a step worker " +
                        std::to_string(worker) +
                        " would have none: raise train.batch, or its share");
    }
    parts.push_back(static_cast<std::uint32_t>(end - begin) * unit);
    begin = end;
  }
  return parts;
}

}  // namespace phub::train

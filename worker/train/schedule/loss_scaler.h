// How much larger than it is the loss's gradient is made, step by step.
//
// A static scale never changes. A dynamic one starts high, halves after a step that the servers
// left out, and doubles after growth_steps steps in a row that they did not (Micikevicius et al.,
// "Mixed precision training", 2018, section 3.2, and NVIDIA's guide to it). What servers left out
// is the same at every worker, so every worker's scale is the same without a word between them. A
// value; the trainer's.
#pragma once

#include <cstdint>

#include "common/base/loss_scale.h"
#include "common/base/status.h"

namespace phub::train {

struct LossScalerOptions {
  LossScaling kind = LossScaling::kNone;
  float scale = 1.0F;  // kStatic: always; kVoted: of the first step
  std::uint32_t growth_steps = 2000;
  std::uint32_t good_steps = 0;  // of a resumed run: behind its scale
};

class LossScaler {
 public:
  static constexpr float kSmallest = kLossScaleMin;
  static constexpr float kLargest = kLossScaleMax;

  explicit LossScaler(const LossScalerOptions& options)
      : options_(options), scale_(options.scale), good_steps_(options.good_steps) {}

  float scale() const { return scale_; }
  std::uint32_t good_steps() const { return good_steps_; }

  // Error: kAborted when gradients overflow at the smallest scale: then they are not finite at all.
  Status after_step(bool skipped);

 private:
  LossScalerOptions options_;
  float scale_;
  std::uint32_t good_steps_;  // in a row
};

}  // namespace phub::train

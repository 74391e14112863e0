#include "worker/train/schedule/loss_scaler.h"

#include <algorithm>

namespace phub::train {

Status LossScaler::after_step(bool skipped) {
  if (options_.kind != LossScaling::kVoted) return {};
  if (!skipped) {
    if (++good_steps_ < options_.growth_steps) return {};
    good_steps_ = 0;
    scale_ = std::min(2.0F * scale_, kLargest);
    return {};
  }
  good_steps_ = 0;
  if (scale_ <= kSmallest) {
    return {Code::kAborted,
            "gradients are not finite, however small the loss scale: lower "
            "optimizer.learning_rate or add warm-up steps"};
  }
  scale_ = std::max(0.5F * scale_, kSmallest);
  return {};
}

}  // namespace phub::train

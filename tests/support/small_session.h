// A training of seconds: synthetic images, one process, no server.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/train/session.h"

namespace phub::testing {

inline train::SessionOptions small_session() {
  return {.executor = {.batch = 8},
          .data = {.format = DataFormat::kSynthetic, .synthetic_images = 64, .shift_pixels = 1},
          .update = {.momentum = 0.9F,
                     .schedule = {.kind = train::ScheduleKind::kConstant, .learning_rate = 0.01F}},
          .epochs = 2};
}

// Stops after `stop_after` steps.
inline Result<train::SessionResult> run(const train::SessionOptions& options,
                                        RuleKind rule = RuleKind::kMomentum,
                                        std::uint64_t stop_after = ~0ULL) {
  const train::LossScalerOptions& scaler = options.update.loss_scale;
  const LossScale scale{scaler.kind, scaler.kind == LossScaling::kStatic ? scaler.scale : 1.0F};
  std::uint64_t steps = 0;
  return train::run_session(
      options,
      [&](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<train::GradientExchange>> {
        return train::make_local_exchange(keys, rule, {.coefficient = 0.02F}, scale);
      },
      [&] { return ++steps >= stop_after; });
}

}  // namespace phub::testing

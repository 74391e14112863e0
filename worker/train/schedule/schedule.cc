#include "worker/train/schedule/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace phub::train {
namespace {

// The share of the steps after the warm-up that are done, at most 1.
double progress(const Schedule& schedule, std::uint64_t step) {
  if (schedule.total_steps <= schedule.warmup_steps || step < schedule.warmup_steps) return 0.0;
  const auto done = static_cast<double>(step - schedule.warmup_steps);
  const auto all = static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  return std::min(1.0, done / all);
}

double factor(const Schedule& schedule, std::uint64_t step, std::uint64_t alike) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return 1.0;
    case ScheduleKind::kStep: {
      const auto dropped = std::count_if(schedule.drops.begin(), schedule.drops.end(),
                                         [&](std::uint64_t drop) { return drop <= alike; });
      return std::pow(static_cast<double>(schedule.gamma), static_cast<double>(dropped));
    }
    case ScheduleKind::kPolynomial:
      return std::pow(1.0 - progress(schedule, alike), static_cast<double>(schedule.power));
    case ScheduleKind::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress(schedule, alike)));
  }
  return 1.0;
}

}  // namespace

std::optional<ScheduleKind> parse_schedule_kind(std::string_view word) {
  if (word == "constant") return ScheduleKind::kConstant;
  if (word == "step") return ScheduleKind::kStep;
  if (word == "polynomial") return ScheduleKind::kPolynomial;
  if (word == "cosine") return ScheduleKind::kCosine;
  return std::nullopt;
}

float learning_rate_at(const Schedule& schedule, std::uint64_t step, std::uint64_t alike) {
  return static_cast<float>(static_cast<double>(schedule.learning_rate) *
                            factor(schedule, step, alike));
}

}  // namespace phub::train

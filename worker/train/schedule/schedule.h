// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace phub::train {

enum class ScheduleKind { kConstant, kStep, kPolynomial, kCosine };

// "constant", "step", "polynomial", "cosine"; nothing for any other word.
std::optional<ScheduleKind> parse_schedule_kind(std::string_view word);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  float learning_rate = 0.05F;  // the highest
  std::uint64_t warmup_steps = 0;
  std::uint64_t total_steps = 1;       // polynomial and cosine reach 0 here
  std::vector<std::uint64_t> drops{};  // step: multiply by gamma from these steps on
  float gamma = 0.1F;
  float power = 2.0F;  // polynomial
};

// Step s of the warm-up takes (s + 1) / warmup_steps of the learning rate. Then, with p the share
// of the steps after the warm-up that are done: 1; gamma^(drops so far); (1 - p)^power;
// (1 + cos(pi p)) / 2.
// `alike`: the steps of today's size that use as many samples as the steps before `step` did, which
// may have been smaller or larger. The warm-up counts steps; what follows it counts these.
float learning_rate_at(const Schedule& schedule, std::uint64_t step, std::uint64_t alike);
inline float learning_rate_at(const Schedule& schedule, std::uint64_t step) {
  return learning_rate_at(schedule, step, step);
}

}  // namespace phub::train

// What the server's kernels make of gradients that another program gives: for torch_rules_test.py.
//
// Usage: rule_steps RULE ELEMENTS STEPS LEARNING_RATE WEIGHT_DECAY MOMENTUM BETA1 BETA2 EPSILON
// CLIP Reads the initial parameters and then the gradients of each step, writes the parameters
// after each step: fp32 in the machine's order.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/clip.h"
#include "kernels/lamb.h"
#include "kernels/reduce.h"

namespace phub {
namespace {

bool read(std::vector<float>& values) {
  return std::fread(values.data(), sizeof(float), values.size(), stdin) == values.size();
}

struct Steps {
  RuleKind rule = RuleKind::kSgd;
  std::size_t elements = 0;
  std::uint64_t count = 0;
  Hyper hyper;
  float weight_decay = 0.0F;
  AdaptiveOptions adaptive;
  float clip_norm = 0.0F;  // 0: none
};

bool run(const Steps& steps) {
  std::vector<float> parameters(steps.elements);
  std::vector<float> gradients(steps.elements);
  std::vector<float> state(2 * steps.elements);
  if (!read(parameters)) return false;
  for (std::uint64_t step = 0; step < steps.count; ++step) {
    if (!read(gradients)) return false;
    const kernels::Source source{reinterpret_cast<const std::byte*>(gradients.data()),
                                 DataType::kFloat32};
    const kernels::AdaptiveStep adaptive =
        kernels::adaptive_step(steps.rule, steps.adaptive, steps.hyper.learning_rate, step);
    Hyper hyper = steps.hyper;
    if (steps.clip_norm > 0.0F) {
      const double squares = kernels::sum_of_squares(gradients.data(), steps.elements);
      hyper.gradient_scale = kernels::clip_coefficient(steps.clip_norm, squares, 1.0F);
    }
    kernels::Update update = {.sources = {&source, 1},
                              .elements = steps.elements,
                              .rule = steps.rule,
                              .hyper = hyper,
                              .weight_decay = steps.weight_decay,
                              .adaptive = &adaptive,
                              .parameters = parameters.data(),
                              .state = state.data(),
                              .state_stride = steps.elements};
    if (steps.rule == RuleKind::kLamb) {
      kernels::lamb_direction(update, gradients.data());
      update.trust = kernels::lamb_trust(kernels::sum_of_squares(parameters.data(), steps.elements),
                                         kernels::sum_of_squares(gradients.data(), steps.elements));
    }
    kernels::update(update);
    if (std::fwrite(parameters.data(), sizeof(float), steps.elements, stdout) != steps.elements) {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace phub

int main(int count, char** arguments) {
  if (count != 11) return 2;
  const auto rule = phub::parse_rule_kind(arguments[1]);
  if (!rule) return 2;
  return phub::run({.rule = *rule,
                    .elements = std::strtoull(arguments[2], nullptr, 10),
                    .count = std::strtoull(arguments[3], nullptr, 10),
                    .hyper = {.learning_rate = std::strtof(arguments[4], nullptr),
                              .momentum = std::strtof(arguments[6], nullptr),
                              .gradient_scale = 1.0F},
                    .weight_decay = std::strtof(arguments[5], nullptr),
                    .adaptive = {.beta1 = std::strtod(arguments[7], nullptr),
                                 .beta2 = std::strtod(arguments[8], nullptr),
                                 .epsilon = std::strtod(arguments[9], nullptr)},
                    .clip_norm = std::strtof(arguments[10], nullptr)})
             ? 0
             : 1;
}

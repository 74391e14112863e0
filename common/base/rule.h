// Update rules: how a chunk's aggregated gradient becomes new parameters.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

enum class RuleKind : std::uint8_t {
  kSum,       // parameters = sum of the pushes (all-reduce)
  kMean,      // parameters = sum / workers
  kSgd,       // w -= lr * (g + wd * w)
  kMomentum,  // v = mu * v + g + wd * w;  w -= lr * v
  kNesterov,  // v = mu * v + g + wd * w;  w -= lr * (g + wd * w + mu * v)
  kLars,      // v = mu * v + lr * trust * (g + wd * w);  w -= v; trust: one of each key and round
};

// Whether the rule has parameters of its own that a first round must initialise.
constexpr bool has_parameters(RuleKind kind) {
  return kind != RuleKind::kSum && kind != RuleKind::kMean;
}

// fp32 state arrays per parameter beside the parameter itself.
constexpr unsigned state_arrays(RuleKind kind) {
  return has_parameters(kind) && kind != RuleKind::kSgd ? 1 : 0;
}

// Whether no part of a key can be updated before all of its gradient is there: then one core has
// all of its chunks.
constexpr bool needs_whole_keys(RuleKind kind) { return kind == RuleKind::kLars; }

// Of rule lars: trust = coefficient * |w| / (|g| + wd * |w| + epsilon) with the norms of the key's
// parameters and of its averaged gradient, and 1 where a norm is 0 or the key is a plain one.
// Algorithm 1 of You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017
// (arXiv 1708.03888), where coefficient is eta and there is no epsilon.
struct LarsOptions {
  float coefficient = 0.001F;
  float epsilon = 0.0F;
  bool operator==(const LarsOptions&) const = default;
};

// What a rule reads every round. Set by the job and changed by its worker 0 at any round boundary.
struct Hyper {
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float gradient_scale = 1.0F;  // multiplies the summed gradient: 1 / workers for an average
  float reserved = 0.0F;
};
static_assert(sizeof(Hyper) == 16, "Hyper is a wire format");

inline constexpr Words<RuleKind, 6> kRuleWords = {
    {"sum", "mean", "sgd", "momentum", "nesterov", "lars"}};
constexpr std::string_view name_of(RuleKind kind) { return kRuleWords.of(kind); }
constexpr auto parse_rule_kind(std::string_view word) { return kRuleWords.parse(word); }

}  // namespace phub

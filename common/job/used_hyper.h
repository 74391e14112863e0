// What a rule reads of a job's hyper-parameters.
//
// A pure function; any thread.
#pragma once

#include "common/base/rule.h"

namespace phub {

// `hyper` without a learning rate and momentum that the rule does not read, which `validate`
// refuses.
constexpr Hyper used_by(RuleKind kind, Hyper hyper) {
  if (!has_parameters(kind)) hyper.learning_rate = 0.0F;
  if (!has_momentum(kind)) hyper.momentum = 0.0F;
  return hyper;
}

}  // namespace phub

// How far a key may move in a round of rule lars: pure arithmetic, any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/rule.h"

namespace phub::kernels {

struct KeySquares {
  double parameters = 0.0;  // sums of squares (sum_of_squares), over the whole key
  double gradients = 0.0;   // of the summed gradient, before it is scaled
};

// The formula of LarsOptions (common/base/rule.h), in double, rounded once. `gradient_scale`
// multiplies the summed gradient; what is beyond fp32 becomes its largest. A NaN when a norm is not
// finite: then the key cannot be updated.
inline float trust_of(const LarsOptions& options, const KeySquares& squares, float gradient_scale,
                      float weight_decay) {
  const double parameters = std::sqrt(squares.parameters);
  const double gradients =
      std::sqrt(squares.gradients) * std::fabs(static_cast<double>(gradient_scale));
  if (!std::isfinite(parameters + gradients)) return std::numeric_limits<float>::quiet_NaN();
  if (parameters == 0.0 || gradients == 0.0) return 1.0F;
  const double against = gradients + static_cast<double>(weight_decay) * parameters +
                         static_cast<double>(options.epsilon);
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(
      std::min(kMost, static_cast<double>(options.coefficient) * parameters / against));
}

}  // namespace phub::kernels

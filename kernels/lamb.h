// How far a key may move in a round of rule lamb: pure arithmetic, any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace phub::kernels {

// Trust = |w| / |u|, of a whole key's parameters and of its update's direction (lamb_direction),
// from sums of their squares (sum_of_squares): in double, rounded once. 1 where a norm is 0; what
// is beyond fp32 becomes its largest. A NaN when a norm is not finite. You, Li, Reddi and others,
// "Large batch optimization for deep learning", 2020 (arXiv 1904.00962), whose phi, a clamp of
// |w|, is the identity.
inline float lamb_trust(double parameters, double directions) {
  if (!std::isfinite(parameters + directions)) return std::numeric_limits<float>::quiet_NaN();
  if (parameters == 0.0 || directions == 0.0) return 1.0F;
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::min(kMost, std::sqrt(parameters) / std::sqrt(directions)));
}

}  // namespace phub::kernels

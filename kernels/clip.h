// Clipping by global norm: pure arithmetic, any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace phub::kernels {

// What averaged gradients are multiplied with, so that the norm of all of them is `clip_norm` at
// most: that of torch.nn.utils.clip_grad_norm_, with its 1e-6. `squares`: of the summed gradients
// (sum_of_squares), which `gradient_scale` multiplies. In double, rounded once. A NaN when the norm
// is not finite: then nothing can be updated.
inline float clip_coefficient(float clip_norm, double squares, float gradient_scale) {
  const double norm = std::sqrt(squares) * std::fabs(static_cast<double>(gradient_scale));
  if (!std::isfinite(norm)) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(std::min(1.0, static_cast<double>(clip_norm) / (norm + 1e-6)));
}

}  // namespace phub::kernels

// Of rule elastic: how far the parameters move to the mean of what workers pushed. Pure arithmetic;
// any thread.
#pragma once

#include "common/base/rule.h"

namespace phub::kernels {

// A share of the way: the elasticity once for each push of the mean, which says by its scale how
// many these are. REQUIRES: gradient_scale is 1 / pushes.
inline float pull_of(const Hyper& hyper) { return hyper.learning_rate / hyper.gradient_scale; }

}  // namespace phub::kernels

// The count that MSTopK's bisection asks for (kernels/threshold_search.h), on a GPU.
//
// As training_arguments.h.
#pragma once

#include <cstdint>

namespace phub::kernels::cuda {

// counts[t] += the elements of magnitude thresholds[t] and above, compared as the integers that
// their bits are; nothing is counted for what `threshold_count` leaves out. One pass over the
// values for all thresholds: with 15 of them four rounds of the bisection, so that 30 rounds take
// eight passes. Arrays live where the kernel runs.
inline constexpr int kCountedThresholds = 15;
struct CountMagnitudes {
  const float* values;
  std::int64_t elements;
  // None negative or a NaN; by value: no copy before a launch.
  float thresholds[kCountedThresholds];
  int threshold_count;
  unsigned long long* counts;  // [threshold_count]
};

}  // namespace phub::kernels::cuda

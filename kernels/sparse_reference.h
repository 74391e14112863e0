// The scalar specification of kernels/sparse.h: plain C++, one idea after the other. For tests, and
// to read; any thread; allocates.
#pragma once

#include "kernels/sparse.h"

namespace phub::kernels::reference {

// What kExact and kHistogram select.
void select_largest(std::span<const float> values, std::size_t k, const Selection& out);
// What kThresholds selects.
void select_by_thresholds(std::span<const float> values, std::size_t k, const Selection& out,
                          const ThresholdOptions& options);
void count_at_least(std::span<const float> values, std::span<const float> thresholds,
                    std::span<std::uint64_t> counts);
Magnitudes measure_magnitudes(std::span<const float> values);
void scatter_add(float* out, const std::uint32_t* indices, Source values, std::size_t count);

}  // namespace phub::kernels::reference

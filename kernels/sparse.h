// The k elements of an array that are largest by magnitude, and sums over such selections.
//
// Magnitudes are compared as the integers that their bits are: infinities are above all numbers and
// NaNs above infinities, so that no selection hides what is not finite; -0 is 0. Of equal ones the
// lower index is the larger. So "the largest k" is one set, whatever the array holds. Pure
// functions; any thread; nothing allocates. Every instruction set gives the bits of the scalar
// specification (sparse_reference.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/encoding.h"
#include "kernels/reduce.h"

namespace phub::kernels {

// Where k elements go, their indices ascending.
struct Selection {
  std::uint32_t* indices = nullptr;  // [k]
  float* values = nullptr;           // [k], as they are in the array
};

// kThresholds: with mean and largest magnitude a and u it bisects q in [0, 1] for thresholds
// t = a + q (u - a), until k elements are at least t or `rounds` are over. It takes the elements
// above the lowest threshold that fewer than k reach, and of those between it and the highest that
// more reach (0, where none was found) a run of as many as are missing, by index. An array that is
// not finite is left to kHistogram.
struct ThresholdOptions {
  unsigned rounds = 30;
  std::uint32_t draw = 0;  // where the run begins: this modulo the number of places
};

// The elements of scratch that a selector needs.
constexpr std::size_t scratch_of(Selector selector, std::size_t elements) {
  return selector == Selector::kExact ? elements : 0;
}

// REQUIRES: k <= values.size() < 2^32; `scratch` has scratch_of elements.
void select(Selector selector, std::span<const float> values, std::size_t k, const Selection& out,
            std::span<std::uint32_t> scratch, const ThresholdOptions& thresholds = {});

// counts[t] = the elements whose magnitude is at least thresholds[t], in one pass over all.
// REQUIRES: at most kMaxThresholds, none negative or a NaN; as many counts.
inline constexpr std::size_t kMaxThresholds = 15;
void count_at_least(std::span<const float> values, std::span<const float> thresholds,
                    std::span<std::uint64_t> counts);

// The magnitudes' sum, as sum_of_squares adds, and the largest one's bits.
struct Magnitudes {
  double sum = 0.0;
  std::uint32_t largest = 0;
};
Magnitudes measure_magnitudes(std::span<const float> values);

// out[indices[i]] += values[i] for each i, in their order.
void scatter_add(float* out, const std::uint32_t* indices, Source values, std::size_t count);

}  // namespace phub::kernels

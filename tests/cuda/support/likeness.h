// How alike a whole network's gradients in 16 bits are to those in fp32.
//
// Not by their distance: a rounding turns a ReLU's mask here and there, and from then on numbers
// differ, though every step is right. What stays is the direction and the length.
// step_comparison_test shows that mere rounding stays within these bounds.
#pragma once

#include <cmath>
#include <span>

#include "common/base/dtype.h"

namespace phub::nn::cuda::testing {

struct Likeness {
  double cosine = 0.0;
  double ratio = 0.0;  // of the lengths
};

inline Likeness likeness(std::span<const float> is, std::span<const float> expected) {
  double squares = 0.0, expected_squares = 0.0, product = 0.0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    squares += double{is[i]} * double{is[i]};
    expected_squares += double{expected[i]} * double{expected[i]};
    product += double{is[i]} * double{expected[i]};
  }
  if (squares == 0.0 && expected_squares == 0.0) return {.cosine = 1.0, .ratio = 1.0};
  return {.cosine = product / std::sqrt(squares * expected_squares),
          .ratio = std::sqrt(squares / expected_squares)};
}

// Of the gradient of one parameter.
inline bool is_alike(const Likeness& found, DataType type) {
  const bool is_fine = type == DataType::kFloat16;
  return found.cosine > (is_fine ? 0.93 : 0.4) && found.ratio > (is_fine ? 0.75 : 0.35) &&
         found.ratio < (is_fine ? 1.35 : 2.0);
}

}  // namespace phub::nn::cuda::testing

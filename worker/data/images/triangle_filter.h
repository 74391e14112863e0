// The weights with which the pixels of an axis are averaged: a triangle as wide as the scale.
//
// For output i of n over [begin, begin + length): scale = length / n, centre = begin + (i + 0.5) *
// scale, and pixel p weighs max(0, 1 - |p + 0.5 - centre| / max(scale, 1)), over the sum of these
// weights. This is Pillow's BILINEAR and torchvision's `antialias=True`.
#pragma once

#include <cstdint>
#include <vector>

namespace phub::data {

// The sum of an output's weights; a weight of 1 is kWeightOne - 1, which 16 bits hold.
inline constexpr std::uint32_t kWeightOne = 1U << 16U;

struct Interval {
  double begin = 0;
  double length = 0;
};

// Values of one axis; its memory is reused.
class TriangleFilter {
 public:
  // Only the pixels that `from` touches have weights.
  // REQUIRES: from.begin >= 0, from.length > 0, outputs > 0.
  void assign(Interval from, std::uint32_t pixels, std::uint32_t outputs);

  std::uint32_t outputs() const { return static_cast<std::uint32_t>(first_.size()); }
  // Pixels that have a weight in each output: some of the last ones may be 0.
  std::uint32_t taps() const { return taps_; }
  // The first of them. With `taps` it never goes beyond the last pixel, if the axis has that many.
  std::uint32_t first(std::uint32_t output) const { return first_[output]; }
  const std::uint16_t* weights(std::uint32_t output) const {
    return weights_.data() + std::size_t{output} * taps_;
  }
  // Every output is one pixel, the next one each.
  bool is_identity() const { return is_identity_; }

 private:
  std::uint32_t taps_ = 0;
  bool is_identity_ = false;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint16_t> weights_;  // [output][tap]
  std::vector<double> exact_;           // of one output
};

}  // namespace phub::data

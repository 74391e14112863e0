// Passes over activations on CPUs: batch normalisation, sums and ReLUs of images stored as NHWC.
//
// Pure functions over ranges of whole pixels, so that callers may split them over threads; any
// thread; no allocation. Storage is fp32 or bf16 (rounded to nearest even), arithmetic is fp32,
// sums are fp64. Nothing is added across channels and no multiplication is fused with an addition,
// so every instruction set gives the same bits (see activations_reference.h, the scalar
// specification). Pointers need only the alignment of their element type.
#pragma once

#include <cstddef>

#include "common/base/dtype.h"

namespace phub::kernels {

// [pixels][channels] elements, one after the other. REQUIRES: fp32 or bf16.
struct Pixels {
  std::size_t pixels = 0;
  std::size_t channels = 0;
  DataType type = DataType::kFloat32;  // of every array of activations
};

// How batch normalisation scales: y = (x - mean) * factor + shift, each an array [channels].
struct ChannelScale {
  const float* mean = nullptr;
  const float* factor = nullptr;
  const float* shift = nullptr;
};

// sums[c] += sum of x - about[c], squares[c] += sum of its square. Within a tile of kSumTile pixels
// the sums are fp32, in four parts (pixel i of the tile in part i mod 4), added as
// (0 + 2) + (1 + 3), and the tiles' are added in fp64. With an `about` near the mean no digits
// cancel in the variance.
inline constexpr std::size_t kSumTile = 256;
struct ChannelSums {
  Pixels shape = {};
  const std::byte* input = nullptr;
  const float* about = nullptr;
  double* sums = nullptr;
  double* squares = nullptr;
};
void add_channel_sums(const ChannelSums& arguments);

// output = (x - mean) * factor + shift, plus `residual` where there is one; with `relu`, 0 where
// that is below 0 (a NaN stays one). The output may be the input's array or the residual's.
struct Normalise {
  Pixels shape = {};
  const std::byte* input = nullptr;
  const std::byte* residual = nullptr;
  std::byte* output = nullptr;
  ChannelScale scale = {};
  bool relu = false;
};
void normalise(const Normalise& arguments);

// What backward knows of a normalisation. With `relu` a gradient is 0 where the normalisation's
// result, worked out again from `input`, is not above 0. Where that is not what the ReLU saw,
// `mask` is its output: the gradient is 0 where that is not above 0.
struct NormaliseGradient {
  Pixels shape = {};
  const std::byte* input = nullptr;
  const std::byte* output_gradient = nullptr;
  const std::byte* mask = nullptr;
  ChannelScale scale = {};
  bool relu = false;
};

// With g the gradient behind the ReLU: sums[c] += sum of g, products[c] += sum of
// g * (x - mean[c]); rounded as in add_channel_sums. `masked_gradient`, if not null, receives g.
void add_gradient_sums(const NormaliseGradient& arguments, double* sums, double* products,
                       std::byte* masked_gradient = nullptr);

// input_gradient = g * factor + ((x - mean) * slope + offset), with [channels] of slope and offset.
struct GradientLine {
  const float* slope = nullptr;
  const float* offset = nullptr;
};
void normalise_backward(const NormaliseGradient& arguments, const GradientLine& line,
                        std::byte* input_gradient);

// output[i] = first[i] + second[i], with `relu` 0 where that is below 0. The output may be one of
// the inputs.
struct AddActivations {
  std::size_t elements = 0;
  DataType type = DataType::kFloat32;
  const std::byte* first = nullptr;
  const std::byte* second = nullptr;
  std::byte* output = nullptr;
  bool relu = false;
};
void add_activations(const AddActivations& arguments);

// first[i] = second[i] = gradient[i] where output[i] is above 0, else 0; `second` may be null, and
// `first` may be the gradient.
struct MaskGradient {
  std::size_t elements = 0;
  DataType type = DataType::kFloat32;
  const std::byte* output = nullptr;
  const std::byte* gradient = nullptr;
  std::byte* first = nullptr;
  std::byte* second = nullptr;
};
void mask_gradient(const MaskGradient& arguments);

}  // namespace phub::kernels

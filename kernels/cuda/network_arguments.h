// The kernels between cuDNN's graphs: what each does, and its arguments.
//
// Each has a scalar specification (network_reference.h, on the host) and a device kernel
// (network_kernels.h) over the same arguments. Tensors are [rows][channels], rows being N * H * W
// in NHWC, of `type`; vectors of channels are fp32. Channels are padded
// (worker/cuda/lowered/lowered.h): what is 0 in the padding stays 0. Pointers are the device's for
// kernels, the host's for the specification; aligned to 16 bytes. No output overlaps an input
// unless it says so.
#pragma once

#include <cstdint>

#include "common/base/dtype.h"

namespace phub::kernels::cuda {

// mean = sum / count; variance = sum_of_squares / count - mean^2, at least 0;
// inverse_deviation = 1 / sqrt(variance + epsilon);
// factor = scale * inverse_deviation; offset = bias - mean * factor; both again in `type`.
// running = (1 - momentum) * running + momentum * batch, in place, with the unbiased variance
// (count / (count - 1); that of one element is the biased one).
struct FinalizeStatistics {
  const float *sum, *sum_of_squares, *scale, *bias;
  float *running_mean, *running_variance;
  float *mean, *inverse_deviation, *factor, *offset;
  void *factor16, *offset16;
  DataType type;
  std::int64_t channels, count;
  float epsilon, momentum;
};

// factor = scale / sqrt(running_variance + epsilon); offset = bias - running_mean * factor.
struct InferenceFactors {
  const float *scale, *bias, *running_mean, *running_variance;
  float *factor, *offset;
  std::int64_t channels;
  float epsilon;
};

// dx = dy_factor * dy + x_factor * x + constant. All arrays are aligned to 16 bytes.
struct ApplyBatchNormBackward {
  const void *dy, *x;
  const float *dy_factor, *x_factor, *constant;
  void* dx;
  DataType type;
  std::int64_t rows, channels;
};

// gradient[c] = the sum of dy[..][c], first of `parts` equal parts of the rows (the last ones
// may be shorter or empty), then of those in their order: the same bits every time.
struct BiasGradient {
  const void* dy;
  float* part_sums;  // [parts][channels]
  float* gradient;
  DataType type;
  std::int64_t rows, channels, parts;
};

// sum[c] = the sum of x[..][c], sum_of_squares[c] that of its squares; in parts as BiasGradient.
struct ChannelStatistics {
  const void* x;
  float* part_sums;  // [2][parts][channels]: of the values, of their squares
  float *sum, *sum_of_squares;
  DataType type;
  std::int64_t rows, channels, parts;
};

// target[row][to + i] = source[row][from + i] for i < channels; then zeros up to clear_to.
struct CopyChannels {
  const void* source;
  void* target;
  DataType type;
  std::int64_t rows, source_channels, target_channels;
  std::int64_t channels, from, to, clear_to;
};

// Every stride-th pixel; the source's channels become those from `to` on, all others 0.
// Backward (source: the output's gradient, target: the input's): to the kept pixels, zeros else.
struct ApplySubsample {
  const void* source;
  void* target;
  DataType type;
  std::int64_t images, height, width, channels;  // of the larger image, with its padding
  std::int64_t small_height, small_width, small_channels;
  std::int64_t stride, used_channels, to;
};

// target = source / (1 - ratio) where the mask keeps it, else 0 (worker/nn/dropout.h's function of
// key and the element's index without padding).
struct ApplyDropout {
  const void* source;
  void* target;
  const std::uint64_t* key;  // one number
  std::uint64_t threshold;
  float scale;  // 1 / (1 - ratio)
  DataType type;
  std::int64_t rows, channels, used_channels;
};

// Windows over images of NHWC. Window (p, q) begins at row p * stride_height - pad_height and
// column q * stride_width - pad_width; it sees what of it lies in the image, one pixel at least. A
// tap is a place in a window: row * window_width + column, at most 126.
struct PoolShape {
  std::int32_t images, height, width, channels;  // of what is pooled
  std::int32_t pooled_height, pooled_width;
  std::int32_t window_height, window_width, stride_height, stride_width, pad_height, pad_width;
};

// y = the largest of relu(factor * x + offset) in a window: batch normalisation, ReLU and max
// pooling as one. taken = the largest x of the window (the smallest where factor < 0), of equal
// ones the first by rows; index = its tap, or -1 where factor * taken + offset, a fused
// multiply-add, is at most 0 and so has no gradient. y, taken, index: [image][p][q][channel].
struct ScaledPool {
  const void* x;
  const float *factor, *offset;
  std::int8_t* index;
  void *taken, *y;
  DataType type;
  PoolShape shape;
};

// The sums of the normalisation's backward behind ScaledPool, whose dy is y's gradient. A window's
// dy goes to the x that it has taken, so x itself need not be read: over the rows of y where index
// >= 0, dbias = sum of dy, dscale = sum of dy * (taken - mean) * inverse_deviation; in equal parts
// as BiasGradient. With `count` elements of a channel in x: dy_factor = scale * inverse_deviation,
// x_factor = -dy_factor * inverse_deviation * dscale / count, constant = -dy_factor * dbias / count
// - x_factor * mean.
struct ScaledPoolSums {
  const void *dy, *taken;
  const std::int8_t* index;
  const float *scale, *mean, *inverse_deviation;
  float* part_sums;  // [2][parts][channels]: for dbias, then for dscale
  float *dscale, *dbias, *dy_factor, *x_factor, *constant;
  DataType type;
  std::int64_t rows, channels, parts, count;
};

// dx = dy_factor * dz + x_factor * x + constant; dz = the sum of dy of the windows whose index
// names this element, by rows.
struct ScaledPoolBackward {
  const void *dy, *x;
  const std::int8_t* index;
  const float *dy_factor, *x_factor, *constant;
  void* dx;
  DataType type;
  PoolShape shape;
};

}  // namespace phub::kernels::cuda

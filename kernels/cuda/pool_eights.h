// What a thread of scaled_pool.cu does: eight neighbouring channels at a time, 16 bytes of 16-bit
// elements.
//
// Compiled for the device by nvcc and for the host by others, as parameter_eights.h: `Memory` is
// how eight elements are accessed, so that all but the addition of the threads' sums is tested
// where there is no GPU. A thread keeps its place in the image and its channels and goes over
// images, so that windows are found and the channels' numbers loaded once.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/network_arguments.h"

namespace phub::kernels::cuda {

// Eight channels of a pixel.
struct PoolPlace {
  std::int32_t row, column, channel;
};

// Of all places of an image, by rows. REQUIRES: channels are a multiple of eight.
PHUB_DEVICE inline PoolPlace pool_place(std::int32_t i, std::int32_t width, std::int32_t channels) {
  const std::int32_t groups = channels / kEight;
  const std::int32_t pixel = i / groups;
  return {pixel / width, pixel % width, i % groups * kEight};
}

// A thread's images: first, first + step ...
struct PoolImages {
  std::int32_t first, step;
};

// [first, last]; none where last < first.
struct PoolRange {
  std::int32_t first, last;
};

// Along one axis: the pixels that a window sees ...
PHUB_DEVICE inline PoolRange seen_by(std::int32_t window, std::int32_t size, std::int32_t stride,
                                     std::int32_t pad, std::int32_t pixels) {
  const std::int32_t begin = window * stride - pad;
  return {std::max(begin, 0), std::min(begin + size, pixels) - 1};
}

// ... and the windows that see a pixel.
PHUB_DEVICE inline PoolRange windows_at(std::int32_t pixel, std::int32_t size, std::int32_t stride,
                                        std::int32_t pad, std::int32_t windows) {
  const std::int32_t from = pixel + pad;
  return {from < size ? 0 : (from - size) / stride + 1, std::min(from / stride, windows - 1)};
}

// In an image of x or of y; an image has fewer than 2^31 elements.
PHUB_DEVICE inline std::int32_t pool_at(std::int32_t width, std::int32_t channels,
                                        const PoolPlace& at) {
  return (at.row * width + at.column) * channels + at.channel;
}

PHUB_DEVICE inline std::int64_t image_elements(const PoolShape& s) {
  return std::int64_t{s.height} * s.width * s.channels;
}
PHUB_DEVICE inline std::int64_t pooled_elements(const PoolShape& s) {
  return std::int64_t{s.pooled_height} * s.pooled_width * s.channels;
}

// x, negated where the factor's sign is set: the largest is then what the factor makes the largest.
PHUB_DEVICE inline float oriented(float x, float factor) {
  constexpr std::uint32_t kSign = 0x80000000U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^
                              (std::bit_cast<std::uint32_t>(factor) & kSign));
}

// The largest oriented x of a window so far, of each of eight channels.
struct PoolLargest {
  float values[kEight];
  std::int32_t taps[kEight];

  PHUB_DEVICE explicit PoolLargest(std::int32_t first_tap) {
    PHUB_UNROLL
    for (int j = 0; j < kEight; ++j) {
      values[j] = -INFINITY;
      taps[j] = first_tap;
    }
  }
  PHUB_DEVICE void take(const float* x, const float* factor, std::int32_t tap) {
    PHUB_UNROLL
    for (int j = 0; j < kEight; ++j) {
      const float value = oriented(x[j], factor[j]);
      const bool larger = value > values[j];
      values[j] = larger ? value : values[j];
      taps[j] = larger ? tap : taps[j];
    }
  }
};

// So many pixels of a row are loaded before the first is looked at. Beyond the window's end they
// are its last pixel again, which changes nothing.
inline constexpr int kPoolTapsAtOnce = 3;

// `image` is its first element in x.
template <typename Memory>
PHUB_DEVICE PoolLargest largest_of(const ScaledPool& a, std::int64_t image, const PoolPlace& place,
                                   const float* factor, const Memory& memory) {
  const PoolShape& s = a.shape;
  const PoolRange rows =
      seen_by(place.row, s.window_height, s.stride_height, s.pad_height, s.height);
  const PoolRange columns =
      seen_by(place.column, s.window_width, s.stride_width, s.pad_width, s.width);
  const std::int32_t top = place.row * s.stride_height - s.pad_height;
  const std::int32_t left = place.column * s.stride_width - s.pad_width;
  PoolLargest largest((rows.first - top) * s.window_width + columns.first - left);
  for (std::int32_t row = rows.first; row <= rows.last; ++row) {
    for (std::int32_t begin = columns.first; begin <= columns.last; begin += kPoolTapsAtOnce) {
      float x[kPoolTapsAtOnce][kEight];
      PHUB_UNROLL
      for (int k = 0; k < kPoolTapsAtOnce; ++k) {
        const std::int32_t column = std::min(begin + k, columns.last);
        memory.load(a.x, image + pool_at(s.width, s.channels, {row, column, place.channel}), x[k]);
      }
      PHUB_UNROLL
      for (int k = 0; k < kPoolTapsAtOnce; ++k) {
        const std::int32_t column = std::min(begin + k, columns.last);
        largest.take(x[k], factor, (row - top) * s.window_width + column - left);
      }
    }
  }
  return largest;
}

// Of `place` in y.
template <typename Memory>
PHUB_DEVICE void pool_eight(const ScaledPool& a, const PoolPlace& place, const PoolImages& images,
                            const Memory& memory) {
  float factor[kEight], offset[kEight];
  memory.load_vector(a.factor + place.channel, factor);
  memory.load_vector(a.offset + place.channel, offset);
  const std::int32_t to = pool_at(a.shape.pooled_width, a.shape.channels, place);
  for (std::int32_t image = images.first; image < a.shape.images; image += images.step) {
    const PoolLargest largest =
        largest_of(a, image * image_elements(a.shape), place, factor, memory);
    float taken[kEight], y[kEight];
    std::int8_t index[kEight];
    PHUB_UNROLL
    for (int j = 0; j < kEight; ++j) {
      taken[j] = oriented(largest.values[j], factor[j]);
      const float scaled = fmaf(factor[j], taken[j], offset[j]);
      const bool cut = scaled <= 0.0F;  // not what is no number
      y[j] = cut ? 0.0F : scaled;
      index[j] = static_cast<std::int8_t>(cut ? -1 : largest.taps[j]);
    }
    const std::int64_t at = image * pooled_elements(a.shape) + to;
    memory.store_index(a.index + at, index);
    memory.store(a.taken, at, taken);
    memory.store(a.y, at, y);
  }
}

// For dbias and dscale, of eight channels.
struct PoolSums {
  float gradients[kEight], products[kEight];
};

// [first, end), none where that is not before it.
struct PoolRows {
  std::int64_t first, end;
};

PHUB_DEVICE inline PoolRows rows_of(const ScaledPoolSums& a, std::int64_t part) {
  const std::int64_t rows = (a.rows + a.parts - 1) / a.parts;
  return {part * rows, std::min((part + 1) * rows, a.rows)};
}

// Of the rows first, first + step ... before `end`.
template <typename Memory>
PHUB_DEVICE PoolSums sum_eight(const ScaledPoolSums& a, std::int64_t channel, std::int64_t first,
                               std::int64_t end, std::int64_t step, const Memory& memory) {
  float mean[kEight], inverse[kEight];
  memory.load_vector(a.mean + channel, mean);
  memory.load_vector(a.inverse_deviation + channel, inverse);
  PoolSums sums = {};
  for (std::int64_t row = first; row < end; row += step) {
    const std::int64_t at = row * a.channels + channel;
    float dy[kEight], taken[kEight];
    std::int8_t index[kEight];
    memory.load(a.dy, at, dy);
    memory.load(a.taken, at, taken);
    memory.load_index(a.index + at, index);
    PHUB_UNROLL
    for (int j = 0; j < kEight; ++j) {
      const float gradient = index[j] < 0 ? 0.0F : dy[j];
      sums.gradients[j] += gradient;
      sums.products[j] += gradient * ((taken[j] - mean[j]) * inverse[j]);
    }
  }
  return sums;
}

// What follows from a channel's sums.
PHUB_DEVICE inline void finish_sums(const ScaledPoolSums& a, std::int64_t channel, float gradients,
                                    float products) {
  const auto count = static_cast<float>(a.count);
  const float inverse = a.inverse_deviation[channel];
  const float dy_factor = a.scale[channel] * inverse;
  const float x_factor = -dy_factor * inverse * products / count;
  a.dbias[channel] = gradients;
  a.dscale[channel] = products;
  a.dy_factor[channel] = dy_factor;
  a.x_factor[channel] = x_factor;
  a.constant[channel] = -dy_factor * gradients / count - x_factor * a.mean[channel];
}

// So many windows of a row are loaded before the first is looked at: as many as three pixels wide
// and two apart see a pixel.
inline constexpr int kPoolWindowsAtOnce = 2;
inline constexpr std::int32_t kNoPoolTap = -2;  // named by no index

// dz of `place` in x; `image` is its first element in y.
template <typename Memory>
PHUB_DEVICE void gather_eight(const ScaledPoolBackward& a, std::int64_t image,
                              const PoolPlace& place, float* dz, const Memory& memory) {
  const PoolShape& s = a.shape;
  const PoolRange rows =
      windows_at(place.row, s.window_height, s.stride_height, s.pad_height, s.pooled_height);
  const PoolRange columns =
      windows_at(place.column, s.window_width, s.stride_width, s.pad_width, s.pooled_width);
  for (std::int32_t p = rows.first; p <= rows.last; ++p) {
    const std::int32_t tap_row = place.row + s.pad_height - p * s.stride_height;
    for (std::int32_t begin = columns.first; begin <= columns.last; begin += kPoolWindowsAtOnce) {
      float dy[kPoolWindowsAtOnce][kEight];
      std::int8_t index[kPoolWindowsAtOnce][kEight];
      PHUB_UNROLL
      for (int k = 0; k < kPoolWindowsAtOnce; ++k) {
        const std::int32_t q = std::min(begin + k, columns.last);
        const std::int64_t at = image + pool_at(s.pooled_width, s.channels, {p, q, place.channel});
        memory.load(a.dy, at, dy[k]);
        memory.load_index(a.index + at, index[k]);
      }
      PHUB_UNROLL
      for (int k = 0; k < kPoolWindowsAtOnce; ++k) {
        const std::int32_t column = place.column + s.pad_width - (begin + k) * s.stride_width;
        // Behind the last window none is named.
        const std::int32_t tap =
            begin + k <= columns.last ? tap_row * s.window_width + column : kNoPoolTap;
        PHUB_UNROLL
        for (int j = 0; j < kEight; ++j) dz[j] += index[k][j] == tap ? dy[k][j] : 0.0F;
      }
    }
  }
}

// Of `place` in x.
template <typename Memory>
PHUB_DEVICE void spread_eight(const ScaledPoolBackward& a, const PoolPlace& place,
                              const PoolImages& images, const Memory& memory) {
  float dy_factor[kEight], x_factor[kEight], constant[kEight];
  memory.load_vector(a.dy_factor + place.channel, dy_factor);
  memory.load_vector(a.x_factor + place.channel, x_factor);
  memory.load_vector(a.constant + place.channel, constant);
  const std::int32_t to = pool_at(a.shape.width, a.shape.channels, place);
  for (std::int32_t image = images.first; image < a.shape.images; image += images.step) {
    const std::int64_t at = image * image_elements(a.shape) + to;
    float x[kEight], dz[kEight] = {};
    memory.load(a.x, at, x);
    gather_eight(a, image * pooled_elements(a.shape), place, dz, memory);
    PHUB_UNROLL
    for (int j = 0; j < kEight; ++j) {
      dz[j] = dy_factor[j] * dz[j] + x_factor[j] * x[j] + constant[j];
    }
    memory.store(a.dx, at, dz);
  }
}

}  // namespace phub::kernels::cuda

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "kernels/cuda/network_reference.h"

namespace phub::kernels::cuda::reference {
namespace {

// An element of y, with its window's first row and column, which may lie outside.
struct PooledElement {
  std::int64_t image, top, left, channel;
  std::int64_t at;  // in y
};

template <typename Visit>
void for_each_pooled(const PoolShape& s, Visit visit) {
  std::int64_t at = 0;
  for (std::int64_t image = 0; image < s.images; ++image) {
    for (std::int64_t p = 0; p < s.pooled_height; ++p) {
      for (std::int64_t q = 0; q < s.pooled_width; ++q) {
        for (std::int64_t c = 0; c < s.channels; ++c) {
          visit(PooledElement{image, p * s.stride_height - s.pad_height,
                              q * s.stride_width - s.pad_width, c, at++});
        }
      }
    }
  }
}

// Of a tap, in x; -1 outside the image.
std::int64_t place_in_x(const PoolShape& s, const PooledElement& element, std::int64_t tap) {
  const std::int64_t row = element.top + tap / s.window_width;
  const std::int64_t column = element.left + tap % s.window_width;
  if (row < 0 || row >= s.height || column < 0 || column >= s.width) return -1;
  return ((element.image * s.height + row) * s.width + column) * s.channels + element.channel;
}

}  // namespace

void run(const ScaledPool& a) {
  const PoolShape& s = a.shape;
  for_each_pooled(s, [&](const PooledElement& element) {
    const float factor = a.factor[element.channel];
    const bool smallest = std::signbit(factor);
    float taken = smallest ? INFINITY : -INFINITY;
    std::int64_t index = -1;
    for (std::int64_t tap = 0; tap < std::int64_t{s.window_height} * s.window_width; ++tap) {
      const std::int64_t place = place_in_x(s, element, tap);
      if (place < 0) continue;
      if (index < 0) index = tap;
      const float x = load(a.x, a.type, place);
      if (!(smallest ? x < taken : x > taken)) continue;
      taken = x;
      index = tap;
    }
    const float scaled = std::fma(factor, taken, a.offset[element.channel]);
    const bool cut = scaled <= 0.0F;
    a.index[element.at] = static_cast<std::int8_t>(cut ? -1 : index);
    store(a.taken, a.type, element.at, taken);
    store(a.y, a.type, element.at, cut ? 0.0F : scaled);
  });
}

void run(const ScaledPoolSums& a) {
  const std::int64_t part_rows = (a.rows + a.parts - 1) / a.parts;
  const auto count = static_cast<float>(a.count);
  for (std::int64_t c = 0; c < a.channels; ++c) {
    const float mean = a.mean[c], inverse = a.inverse_deviation[c];
    a.dbias[c] = a.dscale[c] = 0.0F;
    for (std::int64_t part = 0; part < a.parts; ++part) {
      float gradients = 0.0F, products = 0.0F;
      const std::int64_t end = std::min((part + 1) * part_rows, a.rows);
      for (std::int64_t row = part * part_rows; row < end; ++row) {
        const std::int64_t at = row * a.channels + c;
        const float dy = a.index[at] < 0 ? 0.0F : load(a.dy, a.type, at);
        gradients += dy;
        products += dy * ((load(a.taken, a.type, at) - mean) * inverse);
      }
      a.part_sums[part * a.channels + c] = gradients;
      a.part_sums[(a.parts + part) * a.channels + c] = products;
      a.dbias[c] += gradients;
      a.dscale[c] += products;
    }
    a.dy_factor[c] = a.scale[c] * inverse;
    a.x_factor[c] = -a.dy_factor[c] * inverse * a.dscale[c] / count;
    a.constant[c] = -a.dy_factor[c] * a.dbias[c] / count - a.x_factor[c] * mean;
  }
}

void run(const ScaledPoolBackward& a) {
  const PoolShape& s = a.shape;
  const std::int64_t elements = std::int64_t{s.images} * s.height * s.width * s.channels;
  std::vector<float> dz(static_cast<std::size_t>(elements));
  for_each_pooled(s, [&](const PooledElement& element) {
    if (a.index[element.at] < 0) return;
    const std::int64_t place = place_in_x(s, element, a.index[element.at]);
    dz[static_cast<std::size_t>(place)] += load(a.dy, a.type, element.at);
  });
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t c = i % s.channels;
    const float sum = a.dy_factor[c] * dz[static_cast<std::size_t>(i)] +
                      a.x_factor[c] * load(a.x, a.type, i) + a.constant[c];
    store(a.dx, a.type, i, sum);
  }
}

}  // namespace phub::kernels::cuda::reference

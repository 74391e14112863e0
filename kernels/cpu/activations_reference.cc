#include "kernels/activations_reference.h"

#include <algorithm>

#include "kernels/reference.h"

namespace phub::kernels::reference {
namespace {

float scaled(float centred, float factor, float shift) {
  const float product = centred * factor;
  return product + shift;
}

// Of one channel: fp32 in a tile, in four parts, and fp64 over the tiles. `at` gives pixel i's.
template <typename At>
double tiled_sum(std::size_t pixels, At at) {
  double sum = 0.0;
  for (std::size_t tile = 0; tile < pixels; tile += kSumTile) {
    float parts[4] = {};
    const std::size_t end = std::min(tile + kSumTile, pixels);
    for (std::size_t i = tile; i < end; ++i) parts[(i - tile) % 4] += at(i);
    const float even = parts[0] + parts[2];
    const float odd = parts[1] + parts[3];
    sum += static_cast<double>(even + odd);
  }
  return sum;
}

// The gradient behind the ReLU at element i of channel c.
float gradient_at(const NormaliseGradient& a, std::size_t i, std::size_t c) {
  const DataType type = a.shape.type;
  const float gradient = load(a.output_gradient, type, i);
  if (a.mask != nullptr) return load(a.mask, type, i) > 0.0F ? gradient : 0.0F;
  if (!a.relu) return gradient;
  const float centred = load(a.input, type, i) - a.scale.mean[c];
  return scaled(centred, a.scale.factor[c], a.scale.shift[c]) > 0.0F ? gradient : 0.0F;
}

}  // namespace

void add_channel_sums(const ChannelSums& a) {
  const auto [pixels, channels, type] = a.shape;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto centred = [&, n = channels, t = type](std::size_t pixel) {
      return load(a.input, t, pixel * n + c) - a.about[c];
    };
    a.sums[c] += tiled_sum(pixels, centred);
    a.squares[c] += tiled_sum(pixels, [&](std::size_t i) { return centred(i) * centred(i); });
  }
}

void normalise(const Normalise& a) {
  const DataType type = a.shape.type;
  for (std::size_t i = 0; i < a.shape.pixels * a.shape.channels; ++i) {
    const std::size_t c = i % a.shape.channels;
    const float centred = load(a.input, type, i) - a.scale.mean[c];
    float value = scaled(centred, a.scale.factor[c], a.scale.shift[c]);
    if (a.residual != nullptr) value += load(a.residual, type, i);
    if (a.relu && value < 0.0F) value = 0.0F;
    store(a.output, type, i, value);
  }
}

void add_gradient_sums(const NormaliseGradient& a, double* sums, double* products,
                       std::byte* masked_gradient) {
  const std::size_t channels = a.shape.channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto gradient = [&](std::size_t i) { return gradient_at(a, i * channels + c, c); };
    const auto product = [&](std::size_t i) {
      const float centred = load(a.input, a.shape.type, i * channels + c) - a.scale.mean[c];
      return gradient(i) * centred;
    };
    sums[c] += tiled_sum(a.shape.pixels, gradient);
    products[c] += tiled_sum(a.shape.pixels, product);
  }
  if (masked_gradient == nullptr) return;
  for (std::size_t i = 0; i < a.shape.pixels * channels; ++i) {
    store(masked_gradient, a.shape.type, i, gradient_at(a, i, i % channels));
  }
}

void normalise_backward(const NormaliseGradient& a, const GradientLine& line,
                        std::byte* input_gradient) {
  for (std::size_t i = 0; i < a.shape.pixels * a.shape.channels; ++i) {
    const std::size_t c = i % a.shape.channels;
    const float centred = load(a.input, a.shape.type, i) - a.scale.mean[c];
    const float own = gradient_at(a, i, c) * a.scale.factor[c];
    store(input_gradient, a.shape.type, i, own + scaled(centred, line.slope[c], line.offset[c]));
  }
}

void add_activations(const AddActivations& a) {
  for (std::size_t i = 0; i < a.elements; ++i) {
    const float sum = load(a.first, a.type, i) + load(a.second, a.type, i);
    store(a.output, a.type, i, a.relu && sum < 0.0F ? 0.0F : sum);
  }
}

void mask_gradient(const MaskGradient& a) {
  for (std::size_t i = 0; i < a.elements; ++i) {
    const float gradient = load(a.gradient, a.type, i);
    const float masked = load(a.output, a.type, i) > 0.0F ? gradient : 0.0F;
    store(a.first, a.type, i, masked);
    if (a.second != nullptr) store(a.second, a.type, i, masked);
  }
}

}  // namespace phub::kernels::reference

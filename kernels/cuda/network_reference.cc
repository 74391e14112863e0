#include "kernels/cuda/network_reference.h"

#include <algorithm>
#include <cmath>

#include "common/base/splitmix.h"
#include "kernels/cuda/host_array.h"

namespace phub::kernels::cuda::reference {

void run(const FinalizeStatistics& a) {
  for (std::int64_t c = 0; c < a.channels; ++c) {
    const auto count = static_cast<float>(a.count);
    const float mean = a.sum[c] / count;
    const float variance = std::max(a.sum_of_squares[c] / count - mean * mean, 0.0F);
    const float unbiased = a.count > 1 ? variance * (count / (count - 1.0F)) : variance;
    a.mean[c] = mean;
    a.inverse_deviation[c] = 1.0F / std::sqrt(variance + a.epsilon);
    a.factor[c] = a.scale[c] * a.inverse_deviation[c];
    a.offset[c] = a.bias[c] - mean * a.factor[c];
    store(a.factor16, a.type, c, a.factor[c]);
    store(a.offset16, a.type, c, a.offset[c]);
    a.running_mean[c] += a.momentum * (mean - a.running_mean[c]);
    a.running_variance[c] += a.momentum * (unbiased - a.running_variance[c]);
  }
}

void run(const InferenceFactors& a) {
  for (std::int64_t c = 0; c < a.channels; ++c) {
    a.factor[c] = a.scale[c] / std::sqrt(a.running_variance[c] + a.epsilon);
    a.offset[c] = a.bias[c] - a.running_mean[c] * a.factor[c];
  }
}

void run(const ApplyBatchNormBackward& a) {
  for (std::int64_t i = 0; i < a.rows * a.channels; ++i) {
    const std::int64_t c = i % a.channels;
    const float sum = a.dy_factor[c] * load(a.dy, a.type, i) +
                      a.x_factor[c] * load(a.x, a.type, i) + a.constant[c];
    store(a.dx, a.type, i, sum);
  }
}

namespace {

// total[c] = the sum of term(row, c), part by part.
template <typename Term>
void sum_in_parts(std::int64_t rows, std::int64_t channels, std::int64_t parts, float* part_sums,
                  float* total, Term term) {
  const std::int64_t part_rows = (rows + parts - 1) / parts;
  for (std::int64_t c = 0; c < channels; ++c) {
    total[c] = 0.0F;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t end = std::min((part + 1) * part_rows, rows);
      float sum = 0.0F;
      for (std::int64_t row = part * part_rows; row < end; ++row) sum += term(row, c);
      part_sums[part * channels + c] = sum;
      total[c] += sum;
    }
  }
}

}  // namespace

void run(const BiasGradient& a) {
  sum_in_parts(
      a.rows, a.channels, a.parts, a.part_sums, a.gradient,
      [&](std::int64_t row, std::int64_t c) { return load(a.dy, a.type, row * a.channels + c); });
}

void run(const ChannelStatistics& a) {
  const auto value = [&](std::int64_t row, std::int64_t c) {
    return load(a.x, a.type, row * a.channels + c);
  };
  sum_in_parts(a.rows, a.channels, a.parts, a.part_sums, a.sum, value);
  sum_in_parts(a.rows, a.channels, a.parts, a.part_sums + a.parts * a.channels, a.sum_of_squares,
               [&](std::int64_t row, std::int64_t c) {
                 const float x = value(row, c);
                 return x * x;
               });
}

void run(const CopyChannels& a) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t i = 0; i < a.channels; ++i) {
      const float value = load(a.source, a.type, row * a.source_channels + a.from + i);
      store(a.target, a.type, row * a.target_channels + a.to + i, value);
    }
    for (std::int64_t c = a.to + a.channels; c < a.clear_to; ++c) {
      store(a.target, a.type, row * a.target_channels + c, 0.0F);
    }
  }
}

void run_forward(const ApplySubsample& a) {
  for (std::int64_t i = 0; i < a.images * a.small_height * a.small_width; ++i) {
    const std::int64_t column = i % a.small_width * a.stride;
    const std::int64_t row = i / a.small_width % a.small_height * a.stride;
    const std::int64_t image = i / a.small_width / a.small_height;
    const std::int64_t from = ((image * a.height + row) * a.width + column) * a.channels;
    for (std::int64_t c = 0; c < a.small_channels; ++c) {
      const bool used = c >= a.to && c < a.to + a.used_channels;
      store(a.target, a.type, i * a.small_channels + c,
            used ? load(a.source, a.type, from + c - a.to) : 0.0F);
    }
  }
}

void run_backward(const ApplySubsample& a) {
  for (std::int64_t i = 0; i < a.images * a.height * a.width; ++i) {
    const std::int64_t column = i % a.width;
    const std::int64_t row = i / a.width % a.height;
    const std::int64_t image = i / a.width / a.height;
    const bool kept = row % a.stride == 0 && column % a.stride == 0;
    const std::int64_t from =
        ((image * a.small_height + row / a.stride) * a.small_width + column / a.stride) *
        a.small_channels;
    for (std::int64_t c = 0; c < a.channels; ++c) {
      const bool used = kept && c < a.used_channels;
      store(a.target, a.type, i * a.channels + c,
            used ? load(a.source, a.type, from + a.to + c) : 0.0F);
    }
  }
}

void run(const ApplyDropout& a) {
  for (std::int64_t i = 0; i < a.rows * a.channels; ++i) {
    const std::int64_t c = i % a.channels;
    const std::int64_t index = i / a.channels * a.used_channels + c;
    const bool kept = c < a.used_channels &&
                      (splitmix64(*a.key, static_cast<std::uint64_t>(index)) >> 32U) >= a.threshold;
    store(a.target, a.type, i, kept ? load(a.source, a.type, i) * a.scale : 0.0F);
  }
}

}  // namespace phub::kernels::cuda::reference

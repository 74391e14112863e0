#include "kernels/sparse_reference.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "kernels/reference.h"

namespace phub::kernels::reference {
namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

}  // namespace

void select_largest(std::span<const float> values, std::size_t k, const Selection& out) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return magnitude(values[a]) > magnitude(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < k; ++i) {
    out.indices[i] = order[i];
    out.values[i] = values[order[i]];
  }
}

void select_by_thresholds(std::span<const float> values, std::size_t k, const Selection& out,
                          const ThresholdOptions& options) {
  const Magnitudes all = measure_magnitudes(values);
  if (k == 0 || all.largest >= 0x7F800000U) return select_largest(values, k, out);
  const double mean = all.sum / static_cast<double>(values.size());
  const double range = static_cast<double>(std::bit_cast<float>(all.largest)) - mean;
  double left = 0.0;
  double right = 1.0;
  std::uint64_t k1 = 0;
  std::uint64_t k2 = values.size();
  std::uint32_t t1 = 0x80000000U;  // above all
  std::uint32_t t2 = 0;
  for (unsigned round = 0; round < options.rounds && k1 < k; ++round) {
    const double q = (left + right) / 2;
    const auto t = static_cast<float>(mean + q * range);
    std::uint64_t n = 0;
    count_at_least(values, {&t, 1}, {&n, 1});
    if (n <= k) {
      right = q;
      if (n > k1) k1 = n, t1 = magnitude(t);
    } else {
      left = q;
      if (n < k2) k2 = n, t2 = magnitude(t);
    }
  }
  const std::uint64_t missing = k - k1;
  const std::uint64_t begin = missing == 0 ? 0 : options.draw % (k2 - k1 - missing + 1);
  std::uint64_t between = 0;  // of those seen
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const std::uint32_t own = magnitude(values[i]);
    if (own < t2) continue;
    if (own < t1) {
      const std::uint64_t place = between++;
      if (place < begin || place >= begin + missing) continue;
    }
    out.indices[taken] = i;
    out.values[taken++] = values[i];
  }
}

void count_at_least(std::span<const float> values, std::span<const float> thresholds,
                    std::span<std::uint64_t> counts) {
  for (std::size_t t = 0; t < thresholds.size(); ++t) {
    counts[t] = 0;
    for (const float value : values) {
      counts[t] += magnitude(value) >= magnitude(thresholds[t]) ? 1U : 0U;
    }
  }
}

Magnitudes measure_magnitudes(std::span<const float> values) {
  Magnitudes all;
  double sums[kSquareLanes] = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t own = magnitude(values[i]);
    sums[i % kSquareLanes] += static_cast<double>(std::bit_cast<float>(own));
    all.largest = std::max(all.largest, own);
  }
  for (std::size_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  all.sum = sums[0];
  return all;
}

void scatter_add(float* out, const std::uint32_t* indices, Source values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[indices[i]] += load(values.data, values.type, i);
}

}  // namespace phub::kernels::reference

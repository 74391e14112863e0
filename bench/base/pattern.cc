#include "bench/base/pattern.h"

#include <bit>

namespace phub::bench {

std::uint32_t pattern_modulus(DataType type, std::uint32_t workers) {
  // Integers up to here are exact in the type's significand (24, 11 and 8 bits).
  std::uint32_t exact = 1U << 24;
  if (type == DataType::kFloat16) exact = 1U << 11;
  if (type == DataType::kBfloat16) exact = 1U << 8;
  constexpr std::uint32_t kLargest = 1U << 12;
  std::uint32_t modulus = 2;
  while (modulus < kLargest && std::uint64_t{workers} * (modulus * 2 - 1) <= exact) modulus *= 2;
  return modulus;
}

void fill_pattern(std::span<float> out, Pattern pattern, std::uint32_t worker,
                  std::uint64_t first_index) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(pattern_value(pattern, worker, first_index + i));
  }
}

std::optional<std::uint64_t> first_wrong_sum(std::span<const float> values, Pattern pattern,
                                             std::uint32_t workers, std::uint64_t first_index) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t sum = 0;
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      sum += pattern_value(pattern, worker, first_index + i);
    }
    if (values[i] != static_cast<float>(sum)) return first_index + i;
  }
  return std::nullopt;
}

std::uint64_t checksum(std::span<const float> values, std::uint64_t first_index) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += std::bit_cast<std::uint32_t>(values[i]) * (2 * (first_index + i) + 1);
  }
  return sum;
}

}  // namespace phub::bench

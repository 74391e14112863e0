// Gradients whose exact sum is known: small integers that depend on worker, index and round.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/dtype.h"

namespace phub::bench {

// A power of two: values are below it, and the sum over `workers` is exact in `type`.
std::uint32_t pattern_modulus(DataType type, std::uint32_t workers);

// Names one round's gradients.
struct Pattern {
  std::uint32_t modulus = 1;
  std::uint32_t round = 0;
};

inline std::uint32_t pattern_value(Pattern pattern, std::uint32_t worker, std::uint64_t index) {
  constexpr std::uint32_t kIndexFactor = 2'654'435'761U;  // Knuth's multiplicative hash
  constexpr std::uint32_t kWorkerStep = 0x9E37'0001U;
  constexpr std::uint32_t kRoundStep = 0x7F4A'7C15U;
  const std::uint32_t mixed = static_cast<std::uint32_t>(index) * kIndexFactor +
                              worker * kWorkerStep + pattern.round * kRoundStep;
  return (mixed >> 15) & (pattern.modulus - 1);
}

// out[i] = the worker's gradient at first_index + i.
void fill_pattern(std::span<float> out, Pattern pattern, std::uint32_t worker,
                  std::uint64_t first_index);

// Index (from first_index on) of the first element that is not the sum over the workers.
std::optional<std::uint64_t> first_wrong_sum(std::span<const float> values, Pattern pattern,
                                             std::uint32_t workers, std::uint64_t first_index);

// Adds to a checksum over (index, bits of value): the same for the same numbers however they are
// cut into keys.
std::uint64_t checksum(std::span<const float> values, std::uint64_t first_index);

}  // namespace phub::bench

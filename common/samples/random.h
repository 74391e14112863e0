// Random numbers are a pure function of a seed, a purpose and a position. They do not depend on
// how many were drawn before. So the augmentation of a sample is the same
// whichever worker sees it, and a run can be resumed anywhere.
#pragma once

#include <cstdint>

namespace phub {

enum class Purpose : std::uint64_t {
  kPermutation,
  kAugmentation,
  kSynthetic,
  kParameters,
  kDropout,
  kView,
  kMixup
};

// Splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014), started
// at a hash of the key. A value; copies continue alike.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, Purpose purpose, std::uint64_t major, std::uint64_t minor)
      : state_(mix(mix(mix(mix(seed) + static_cast<std::uint64_t>(purpose)) + major) + minor)) {}

  std::uint64_t next() {
    state_ += kIncrement;
    return mix(state_);
  }

  // Uniform in [0, bound). The bias is below bound / 2^32. REQUIRES: 0 < bound < 2^32.
  std::uint64_t below(std::uint64_t bound) { return ((next() >> 32U) * bound) >> 32U; }

  // Uniform in [0, 1), with 24 bits.
  float uniform() { return static_cast<float>(next() >> 40U) * 0x1p-24F; }

 private:
  static constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15U;

  static std::uint64_t mix(std::uint64_t z) {
    z += kIncrement;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  std::uint64_t state_;
};

}  // namespace phub

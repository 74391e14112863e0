// Which elements dropout keeps: a pure function, so that backends agree, runs repeat, and backward
// can ask again instead of storing a mask.
//
// The generator is Splitmix64's output function over a counter (Steele, Lea, Flood, "Fast
// splittable pseudorandom number generators", 2014).
#pragma once

#include <cstdint>
#include <string_view>

namespace phub::nn {

class DropoutMask {
 public:
  // `noise` is that of Backend::set_noise; layers of one network have different names.
  constexpr DropoutMask(std::uint64_t noise, std::string_view layer, float ratio)
      : key_(mix(noise ^ hash(layer))),
        threshold_(static_cast<std::uint32_t>(static_cast<double>(ratio) * 0x1p32)) {}

  // `index`: of the element in the batch's [image][row][column][channel]. The probability of false
  // is `ratio` to 2^-32.
  constexpr bool keeps(std::uint64_t index) const {
    return (mix(key_ + index * kIncrement) >> 32U) >= threshold_;
  }

 private:
  static constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15U;

  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  // FNV-1a.
  static constexpr std::uint64_t hash(std::string_view text) {
    std::uint64_t value = 0xCBF29CE484222325U;
    for (const char character : text) {
      value = (value ^ static_cast<unsigned char>(character)) * 0x100000001B3U;
    }
    return value;
  }

  std::uint64_t key_;
  std::uint64_t threshold_;
};

}  // namespace phub::nn

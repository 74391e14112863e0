// Which elements dropout keeps: a pure function, so that backends agree, runs repeat, and backward
// can ask again instead of storing a mask.
//
// The generator is Splitmix64 over a counter (common/base/splitmix.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/splitmix.h"

namespace phub::nn {

class DropoutMask {
 public:
  // `noise` is that of Backend::set_noise; layers of one network have different names.
  constexpr DropoutMask(std::uint64_t noise, std::string_view layer, float ratio)
      : key_(splitmix64_mix(noise ^ hash(layer))),
        threshold_(static_cast<std::uint32_t>(static_cast<double>(ratio) * 0x1p32)) {}

  // `index`: of the element in the batch's [image][row][column][channel]. The probability of false
  // is `ratio` to 2^-32.
  constexpr bool keeps(std::uint64_t index) const {
    return (splitmix64(key_, index) >> 32U) >= threshold_;
  }

  // For kernels that do the same on a device: kept where the upper half of splitmix64(key, index)
  // is at least the threshold.
  constexpr std::uint64_t key() const { return key_; }
  constexpr std::uint64_t threshold() const { return threshold_; }

 private:
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

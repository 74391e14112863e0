// Splitmix64 as a function of a counter (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014): random access to a stream of numbers. Pure; on the device too.
#pragma once

#include <cstdint>

namespace phub {

constexpr std::uint64_t splitmix64_mix(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

// Number `index` of the stream of `key`.
constexpr std::uint64_t splitmix64(std::uint64_t key, std::uint64_t index) {
  return splitmix64_mix(key + index * 0x9E3779B97F4A7C15U);
}

}  // namespace phub

// The header by which a worker says of which run it is: the two ends agree on it here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace phub {

inline constexpr const char* kRunHeader = "phub-run";
inline constexpr std::size_t kRunBytesMax = 128;

// What gRPC sends as it is, and bounded.
constexpr bool is_run(std::string_view word) {
  return word.size() <= kRunBytesMax &&
         std::all_of(word.begin(), word.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace phub

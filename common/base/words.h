// What the values of an enumeration are called.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace phub {

// The words by value: the enumerators count up from 0.
template <typename Enum, std::size_t kCount>
struct Words {
  std::string_view words[kCount];

  constexpr std::string_view of(Enum value) const {
    const auto index = static_cast<std::size_t>(value);
    return index < kCount ? words[index] : "?";
  }
  // Nothing for any other word.
  constexpr std::optional<Enum> parse(std::string_view word) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (words[i] == word) return static_cast<Enum>(i);
    }
    return std::nullopt;
  }
};

}  // namespace phub

// Words that people give: as numbers, and as errors show them.
//
// Pure functions; any thread.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace phub {

// The whole word as a decimal number. Nothing for any other word, and for a number that the type
// would make larger, smaller or 0.
template <typename Number>
std::optional<Number> parse_number(std::string_view word) {
  Number number = {};
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || rest != end) return {};
  if constexpr (std::is_floating_point_v<Number>) {
    const bool says_zero =
        word.substr(0, word.find_first_of("eE")).find_first_of("123456789") == word.npos;
    if (number == Number(0) && !says_zero) return {};
  }
  return number;
}

// In quotation marks, and cut where it is long.
inline std::string quoted(std::string_view word) {
  constexpr std::size_t kShown = 64;
  std::string text = "\"";
  text += word.substr(0, kShown);
  text += word.size() > kShown ? "\"..." : "\"";
  return text;
}

}  // namespace phub

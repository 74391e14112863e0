// What a rack may be called, and how many racks and servers one server knows.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace phub {

inline constexpr std::size_t kRackNameCharsMax = 64;
inline constexpr std::size_t kRacksMax = 1024;
inline constexpr std::size_t kRackServersMax = 4096;        // of all racks together
inline constexpr std::size_t kServerAddressCharsMax = 300;  // a host name has 253 at most

// 1 to 64 of a-z A-Z 0-9 . _ -, with a letter or a digit first: it is part of keys. With '/'
// between levels, each of which is such a name: "site1/row2/rack3".
inline bool is_rack_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > kRackNameCharsMax || name.back() == '/') return false;
  char last = '/';
  for (const char c : name) {
    const bool is_inside = last != '/' && (c == '.' || c == '_' || c == '-' || c == '/');
    if (!is_alphanumeric(c) && !is_inside) return false;
    last = c;
  }
  return true;
}

}  // namespace phub

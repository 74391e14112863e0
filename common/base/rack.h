// What a rack may be called, and how many racks and servers one server knows.
//
// Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace phub {

inline constexpr std::size_t kRackNameCharsMax = 64;
inline constexpr std::size_t kRacksMax = 1024;
inline constexpr std::size_t kRackServersMax = 4096;        // of all racks together
inline constexpr std::size_t kServerAddressCharsMax = 300;  // a host name has 253 at most

// 1 to 64 of a-z A-Z 0-9 . _ -, with a letter or a digit first: it is part of keys and of paths.
inline bool is_rack_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kRackNameCharsMax && is_alphanumeric(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace phub

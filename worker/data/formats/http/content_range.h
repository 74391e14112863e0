// The header in which a server says which part of a file it sends. A pure function; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace phub::data {

struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;   // included
  std::uint64_t total = 0;  // bytes of the whole file

  bool operator==(const ContentRange&) const = default;
};

// "bytes FIRST-LAST/TOTAL" with FIRST <= LAST < TOTAL (RFC 9110, 14.4); nothing of all else.
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace phub::data

// Text that came from somewhere else as a value in a line of key="value" fields.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/visible.h"

namespace phub {

namespace detail {

// Byte by byte: no reader of a log has to know which characters they would have made.
inline void append_escaped(std::string_view bytes, std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
}

}  // namespace detail

// Writes `text` on one line. A line's end and a tab become \n and \t. Other characters that show
// nothing or turn a line's direction, and bytes that are not UTF-8, become \xHH for each byte.
// Characters of `special` get a backslash.
inline std::string one_line(std::string_view text, std::string_view special = {}) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const detail::CodePoint point = detail::first_code_point(text);
    const std::string_view bytes = text.substr(0, point.bytes == 0 ? 1 : point.bytes);
    if (point.value == '\n' || point.value == '\t') {
      shown += point.value == '\n' ? "\\n" : "\\t";
    } else if (point.bytes == 0 || detail::is_unseen(point.value)) {
      detail::append_escaped(bytes, shown);
    } else {
      if (special.find(bytes) != std::string_view::npos) shown += '\\';
      shown += bytes;
    }
    text.remove_prefix(bytes.size());
  }
  return shown;
}

// The same in quotes, with \" and \\ for a quote and a backslash: nothing in it ends the field.
inline std::string log_value(std::string_view text) { return '"' + one_line(text, "\"\\") + '"'; }

}  // namespace phub

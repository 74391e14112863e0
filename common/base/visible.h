// Text that came from somewhere else, made fit for a terminal and a log.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace phub {

namespace detail {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// The first code point of `text`, in its shortest form and no surrogate. REQUIRES: not empty.
inline CodePoint first_code_point(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const std::size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return {};
  char32_t value = byte(0) & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = (value << 6U) | (byte(i) & 0x3FU);
  }
  const bool is_shortest = bytes == 2 || value >= (bytes == 3 ? 0x800U : 0x10000U);
  const bool is_surrogate = value >= 0xD800U && value <= 0xDFFFU;
  if (!is_shortest || is_surrogate || value > 0x10FFFFU) return {};
  return {value, bytes};
}

// Control characters (C0, DEL, C1), and those that turn the direction of what follows.
inline bool is_control(char32_t value) {
  const bool turns = value == 0x61C || value == 0x200E || value == 0x200F ||
                     (value >= 0x2028 && value <= 0x202E) || (value >= 0x2066 && value <= 0x2069);
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || turns;
}

}  // namespace detail

// Whether a name is UTF-8 without control characters and without the quotes that logs put around
// it.
inline bool is_visible_name(std::string_view name) {
  while (!name.empty()) {
    const detail::CodePoint point = detail::first_code_point(name);
    if (point.bytes == 0 || detail::is_control(point.value) || point.value == '"') return false;
    name.remove_prefix(point.bytes);
  }
  return true;
}

// The text with "?" in place of each byte that is not UTF-8 and of each control character but ends
// of lines and tabs.
inline std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const detail::CodePoint point = detail::first_code_point(text);
    const std::size_t bytes = point.bytes == 0 ? 1 : point.bytes;
    const bool is_layout = point.value == '\n' || point.value == '\t';
    if (point.bytes == 0 || (detail::is_control(point.value) && !is_layout)) {
      shown += '?';
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace phub

// Text that came from somewhere else, made fit for a terminal and a log.
//
// Pure functions; any thread.
#pragma once

#include <algorithm>
#include <array>
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

// The ends of lines and paragraphs are among them.
inline bool turns_direction(char32_t value) {
  return value == 0x61C || value == 0x200E || value == 0x200F ||
         (value >= 0x2028 && value <= 0x202E) || (value >= 0x2066 && value <= 0x2069);
}

// Control characters (C0, DEL, C1), and those that turn the direction of what follows.
inline bool is_control(char32_t value) {
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || turns_direction(value);
}

struct CodePoints {
  char32_t first;
  char32_t last;
};

// Unicode's Default_Ignorable_Code_Point (15.0), the blank of Braille, and the signs that hold
// annotations.
inline constexpr std::array kInvisible = {
    CodePoints{0xAD, 0xAD},       CodePoints{0x34F, 0x34F},     CodePoints{0x61C, 0x61C},
    CodePoints{0x115F, 0x1160},   CodePoints{0x17B4, 0x17B5},   CodePoints{0x180B, 0x180F},
    CodePoints{0x200B, 0x200F},   CodePoints{0x202A, 0x202E},   CodePoints{0x2060, 0x206F},
    CodePoints{0x2800, 0x2800},   CodePoints{0x3164, 0x3164},   CodePoints{0xFE00, 0xFE0F},
    CodePoints{0xFEFF, 0xFEFF},   CodePoints{0xFFA0, 0xFFA0},   CodePoints{0xFFF0, 0xFFFB},
    CodePoints{0x1BCA0, 0x1BCA3}, CodePoints{0x1D173, 0x1D17A}, CodePoints{0xE0000, 0xE0FFF}};

// "\u200b" for a number below 2^16.
inline std::string escaped_unit(char32_t unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4) text += kDigits[(unit >> (shift - 4)) & 15U];
  return text;
}

}  // namespace detail

// Whether nobody sees it: two names that differ by such characters alone look alike.
inline bool is_invisible(char32_t value) {
  return std::any_of(
      detail::kInvisible.begin(), detail::kInvisible.end(),
      [value](const auto& range) { return value >= range.first && value <= range.last; });
}

// As JSON writes a code point in ASCII: in JSON text it stays the same string.
inline std::string escaped(char32_t value) {
  if (value < 0x10000) return detail::escaped_unit(value);
  const char32_t rest = value - 0x10000;
  return detail::escaped_unit(0xD800 + (rest >> 10U)) +
         detail::escaped_unit(0xDC00 + (rest & 0x3FFU));
}

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
// of lines and tabs, and "\u200b" in place of each character that nobody sees or that turns the
// direction of others: JSON text stays the same JSON. What is visible already stays as it is.
inline std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const detail::CodePoint point = detail::first_code_point(text);
    const std::size_t bytes = point.bytes == 0 ? 1 : point.bytes;
    const bool is_layout = point.value == '\n' || point.value == '\t';
    if (point.bytes != 0 && (is_invisible(point.value) || detail::turns_direction(point.value))) {
      shown += escaped(point.value);
    } else if (point.bytes == 0 || (detail::is_control(point.value) && !is_layout)) {
      shown += '?';
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace phub

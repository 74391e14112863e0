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

struct Range {
  char32_t first;
  char32_t last;
};

// Control characters (C0, DEL, C1), those that turn the direction of what follows, and the others
// that show nothing: Unicode's format characters and those that it lists as default ignorable.
inline constexpr Range kUnseen[] = {
    {0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},
    {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
    {0x890, 0x891},     {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x17B4, 0x17B5},
    {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
    {0x2800, 0x2800},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
    {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

inline bool is_unseen(char32_t value) {
  for (const Range& range : kUnseen) {
    if (value >= range.first && value <= range.last) return true;
  }
  return false;
}

// Spaces that look like another one, or like two.
inline bool is_odd_space(char32_t value) {
  return value == 0xA0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200A) ||
         value == 0x202F || value == 0x205F || value == 0x3000;
}

// What a terminal acts on.
inline bool is_control(char32_t value) { return value < 0x20 || (value >= 0x7F && value < 0xA0); }

// "\u200b" for a number below 2^16.
inline std::string escaped_unit(char32_t unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4) text += kDigits[(unit >> (shift - 4)) & 15U];
  return text;
}

}  // namespace detail

// As JSON writes a code point in ASCII: in JSON text it stays the same string.
inline std::string escaped(char32_t value) {
  if (value < 0x10000) return detail::escaped_unit(value);
  const char32_t rest = value - 0x10000;
  return detail::escaped_unit(0xD800 + (rest >> 10U)) +
         detail::escaped_unit(0xDC00 + (rest & 0x3FFU));
}

// What is_visible_name asks for, after "NAME: ".
inline constexpr std::string_view kVisibleName =
    "must be UTF-8 without quotes and without characters that cannot be seen or told apart, such "
    "as control characters, U+200B, U+FEFF and spaces other than U+0020";

// Whether a name is UTF-8 without characters that show nothing, so that no two names look alike by
// them, and without the quotes that logs put around it.
inline bool is_visible_name(std::string_view name) {
  while (!name.empty()) {
    const detail::CodePoint point = detail::first_code_point(name);
    if (point.bytes == 0 || detail::is_unseen(point.value) || detail::is_odd_space(point.value) ||
        point.value == '"') {
      return false;
    }
    name.remove_prefix(point.bytes);
  }
  return true;
}

// Writes "?" in place of each byte that is not UTF-8, and of each control character but ends of
// lines and tabs. Another character that shows nothing becomes its escape, such as "\u200b", so
// JSON text stays the same JSON. Visible text stays as it is.
inline std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const detail::CodePoint point = detail::first_code_point(text);
    const std::size_t bytes = point.bytes == 0 ? 1 : point.bytes;
    const bool is_layout = point.value == '\n' || point.value == '\t';
    if (point.bytes == 0 || (detail::is_control(point.value) && !is_layout)) {
      shown += '?';
    } else if (detail::is_unseen(point.value) && !is_layout) {
      shown += escaped(point.value);
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace phub

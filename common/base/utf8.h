// UTF-8 as the Unicode standard has it (table 3-7): no overlong forms, no surrogates.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace phub {

// Bytes of the character that `text` begins with; 0: it begins with none.
inline std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (text.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool is_overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = lead == 0xED && byte(1) > 0x9F;
    return follows(1) && follows(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool is_overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool is_beyond = lead == 0xF4 && byte(1) > 0x8F;
    const bool is_whole = follows(1) && follows(2) && follows(3);
    return is_whole && !is_overlong && !is_beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace phub

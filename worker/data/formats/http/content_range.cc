#include "worker/data/formats/http/content_range.h"

#include <charconv>
#include <system_error>

namespace phub::data {
namespace {

// The number that `text` begins with, and `end` behind it. False: there is none, or another end.
bool take(std::string_view& text, std::uint64_t& number, std::string_view end) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  if (!text.starts_with(end)) return false;
  text.remove_prefix(end.size());
  return true;
}

bool is_unit(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  for (std::size_t i = 0; i < kUnit.size(); ++i) {
    const char c = text[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kUnit[i]) return false;
  }
  return true;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::size_t kUnitBytes = 6;
  if (text.size() < kUnitBytes || !is_unit(text)) return std::nullopt;
  text.remove_prefix(kUnitBytes);
  ContentRange range;
  if (!take(text, range.first, "-") || !take(text, range.last, "/") ||
      !take(text, range.total, "") || !text.empty()) {
    return std::nullopt;
  }
  if (range.first > range.last || range.last >= range.total) return std::nullopt;
  return range;
}

}  // namespace phub::data

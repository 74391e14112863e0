// Many URLs in one text, as WebDataset writes them: "https://host/train-{000000..000127}.tar", and
// several of these joined by "::".
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace phub {

inline constexpr std::size_t kUrlsMax = 1U << 16U;          // of one text
inline constexpr std::size_t kUrlBytesMax = 2048;           // of each of them
inline constexpr std::size_t kUrlListBytesMax = 1U << 16U;  // of the text

// The parts between "::" where "http://" or "https://" follows it: an IPv6 address has "::", too.
std::vector<std::string_view> split_urls(std::string_view text);

// Where a URL's path begins and ends: behind the server's name, before '?' and '#'.
struct UrlPath {
  std::size_t begin = 0;
  std::size_t end = 0;
};
UrlPath path_of_url(std::string_view url);

// All URLs. In the path of one, {FIRST..LAST} stands for each of these numbers, with zeros in front
// where one of the two has them, and {A,B} for each of the words. Errors: kInvalidArgument above a
// bound, and for other braces. They begin with a verb, for a field's name stands in front of them,
// and have nothing of the text: it may have a password.
Result<std::vector<std::string>> expand_urls(std::string_view text);

// The first URL without what may be secret, and how many more there are. For messages.
std::string url_list_without_secrets(std::string_view text);

}  // namespace phub

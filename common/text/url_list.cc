#include "common/text/url_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "common/text/url.h"

namespace phub {
namespace {

constexpr std::size_t kDigitsMax = 9;
constexpr const char* kCure = "; write {000000..000127} or {a,b}, and %7B for the character itself";

Status refused(const std::string& what) { return {Code::kInvalidArgument, what}; }

Status too_many() {
  return refused("names more than " + std::to_string(kUrlsMax) + " URLs; make larger shards");
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() <= kDigitsMax &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "000..127": nothing of what is no range.
Result<std::vector<std::string>> numbers_of(std::string_view range, std::size_t dots,
                                            const std::string& where) {
  const std::string_view first = range.substr(0, dots), last = range.substr(dots + 2);
  if (!all_digits(first) || !all_digits(last)) {
    return refused(where + " are no range of numbers of at most " + std::to_string(kDigitsMax) +
                   " digits" + kCure);
  }
  std::uint32_t low = 0, high = 0;
  std::from_chars(first.data(), first.data() + first.size(), low);
  std::from_chars(last.data(), last.data() + last.size(), high);
  if (low > high) return refused(where + " begin with the larger number; write the smaller first");
  if (high - low >= kUrlsMax) return too_many();
  const auto has_zeros = [](std::string_view text) { return text.size() > 1 && text[0] == '0'; };
  const bool is_padded = has_zeros(first) || has_zeros(last);
  const std::size_t width = is_padded ? std::max(first.size(), last.size()) : 0;
  std::vector<std::string> numbers;
  for (std::uint32_t i = low; i <= high; ++i) {
    const std::string digits = std::to_string(i);
    numbers.push_back(std::string(width - std::min(width, digits.size()), '0') + digits);
  }
  return numbers;
}

Result<std::vector<std::string>> choices_of(std::string_view inside, const std::string& where) {
  const std::size_t dots = inside.find("..");
  if (dots != std::string_view::npos && inside.find(',') == std::string_view::npos) {
    return numbers_of(inside, dots, where);
  }
  std::vector<std::string> words;
  while (inside.find(',') != std::string_view::npos) {
    words.emplace_back(inside.substr(0, inside.find(',')));
    inside.remove_prefix(inside.find(',') + 1);
  }
  if (words.empty()) return refused(where + " have neither \"..\" nor a comma" + kCure);
  words.emplace_back(inside);
  return words;
}

// Appends each of the choices to each of the texts.
Status multiply(std::vector<std::string>& texts, const std::vector<std::string>& choices) {
  if (texts.size() * choices.size() > kUrlsMax) return too_many();
  std::vector<std::string> all;
  all.reserve(texts.size() * choices.size());
  for (const std::string& text : texts) {
    for (const std::string& choice : choices) {
      all.push_back(text + choice);
      if (all.back().size() > kUrlBytesMax) {
        return refused("names a URL of more than " + std::to_string(kUrlBytesMax) +
                       " bytes; make it shorter");
      }
    }
  }
  texts = std::move(all);
  return {};
}

// `place`: of the URL in the whole text.
Result<std::vector<std::string>> expand_one(std::string_view url, std::size_t place) {
  const UrlPath path = path_of_url(url);
  std::vector<std::string> urls = {""};
  std::size_t done = 0;
  while (true) {
    const std::size_t open =
        std::min(url.find_first_of("{}", std::max(done, path.begin)), path.end);
    if (open == path.end) break;
    const std::string where =
        "has braces at character " + std::to_string(place + open + 1) + " that";
    const std::size_t close = std::min(url.find_first_of("{}", open + 1), path.end);
    if (url[open] == '}' || close == path.end || url[close] == '{') {
      return refused(where + " are not closed, or stand in others" + kCure);
    }
    PHUB_ASSIGN_OR_RETURN(const auto choices,
                          choices_of(url.substr(open + 1, close - open - 1), where));
    PHUB_RETURN_IF_ERROR(multiply(urls, {std::string(url.substr(done, open - done))}));
    PHUB_RETURN_IF_ERROR(multiply(urls, choices));
    done = close + 1;
  }
  PHUB_RETURN_IF_ERROR(multiply(urls, {std::string(url.substr(done))}));
  return urls;
}

}  // namespace

std::vector<std::string_view> split_urls(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find("::"); at != std::string_view::npos;
       at = text.find("::", at + 1)) {
    const std::string_view rest = text.substr(at + 2);
    if (!rest.starts_with("http://") && !rest.starts_with("https://")) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 2;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

UrlPath path_of_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t end = std::min(url.find_first_of("?#", host), url.size());
  return {.begin = std::min(url.find('/', host), end), .end = end};
}

Result<std::vector<std::string>> expand_urls(std::string_view text) {
  if (text.size() > kUrlListBytesMax) {
    return refused("has " + std::to_string(text.size()) + " bytes; the most is " +
                   std::to_string(kUrlListBytesMax) + ": write {000000..000127} for many shards");
  }
  std::vector<std::string> all;
  for (const std::string_view url : split_urls(text)) {
    PHUB_ASSIGN_OR_RETURN(const auto urls,
                          expand_one(url, static_cast<std::size_t>(url.data() - text.data())));
    all.insert(all.end(), urls.begin(), urls.end());
    if (all.size() > kUrlsMax) return too_many();
  }
  return all;
}

std::string url_list_without_secrets(std::string_view text) {
  const std::vector<std::string_view> urls = split_urls(text);
  std::string shown = is_url(urls[0]) ? url_without_secrets(urls[0]) : std::string(urls[0]);
  if (urls.size() > 1) shown += " and " + std::to_string(urls.size() - 1) + " more";
  return shown;
}

}  // namespace phub

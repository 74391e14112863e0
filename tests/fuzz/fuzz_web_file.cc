// Any text as a Content-Range and as URLs: a part that lies in its file or nothing, a message that
// has nothing of what stands before an '@' or behind a '?', and no more URLs than there may be.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/text/url.h"
#include "common/text/url_list.h"
#include "worker/data/formats/http/answers.h"
#include "worker/data/formats/http/content_range.h"

namespace {

void check_range(const std::string& text) {
  const auto range = phub::data::parse_content_range(text);
  if (!range) return;
  if (range->first > range->last || range->last >= range->total) std::abort();
  if (text.size() < 6 || text.find_first_not_of("0123456789-/", 6) != std::string::npos) {
    std::abort();
  }
}

void check_url(const std::string& text) {
  if (!phub::is_url(text)) return;
  const std::string shown = phub::url_without_secrets(text);
  if (shown.size() > text.size() + 4 || shown.find('#') != std::string::npos) std::abort();
  const std::size_t begin = shown.find("://") + 3;
  const std::size_t slash = shown.find('/', begin);
  if (shown.substr(begin, slash - begin).find('@') != std::string::npos) std::abort();
  const std::string rest = shown.substr(begin);
  const std::size_t query = rest.find('?');
  if (query != std::string::npos && rest.substr(query) != "?...") std::abort();
  if (phub::data::redirect_refusal("https://host", text).empty() && text.find("://") != 5) {
    std::abort();
  }
}

void check_list(const std::string& text) {
  const auto urls = phub::expand_urls(text);
  if (!urls) {
    if (urls.error().message().empty()) std::abort();
    return;
  }
  if (urls->empty() || urls->size() > phub::kUrlsMax) std::abort();
  for (const std::string& url : *urls) {
    if (url.size() > phub::kUrlBytesMax) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_range(text);
  check_range("bytes " + text);
  check_url(text);
  check_url("https://" + text);
  check_list("https://" + text);
  return 0;
}

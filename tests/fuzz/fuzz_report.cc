// Any text as a file of a run: it is shown or there is a reason why not, and nothing of it is
// markup.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/report/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto file = phub::bench::report::recognise(text.substr(0, 40), text);
  if (!file.is_shown() && file.left_out.empty()) std::abort();
  const std::string page = phub::bench::report::html_of("Run", {file});
  for (const char* never : {"<script", "<iframe", "=\"nan", "=\"-nan", "=\"inf", "=\"-inf"}) {
    if (page.find(never) != std::string::npos) std::abort();
  }
  constexpr std::string_view kPoints = "points=\"";
  for (std::size_t at = page.find(kPoints); at != std::string::npos; at = page.find(kPoints, at)) {
    at = page.find_first_not_of("0123456789.,- ", at + kPoints.size());
    if (page[at] != '"') std::abort();
  }
  return 0;
}

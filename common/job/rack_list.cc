#include "common/job/rack_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/rack.h"
#include "common/plan/plan.h"
#include "common/plan/rack_trees.h"
#include "common/text/word.h"

namespace phub {

Result<std::vector<RackSpec>> parse_racks(std::string_view text) {
  const auto wrong = [&](const std::string& what) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: {}; write NAME:WORKERS,NAME:WORKERS, for example a:4,b:4",
                              quoted(text), what));
  };
  if (std::ranges::count(text, ',') >= std::int64_t{kMaxRacks}) {
    return wrong(fmt::format("at most {} racks", kMaxRacks));
  }
  std::vector<RackSpec> racks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t colon = one.find(':');
    if (colon == std::string::npos) return wrong(quoted(one) + " has no number of workers");
    RackSpec rack{.name = one.substr(0, colon)};
    if (!is_rack_name(rack.name)) return wrong(quoted(rack.name) + " is no name of a rack");
    const char* const last = one.data() + one.size();
    const auto [rest, error] = std::from_chars(one.data() + colon + 1, last, rack.workers);
    if (error != std::errc() || rest != last || rack.workers == 0 || rack.workers > kMaxWorkers) {
      return wrong(
          fmt::format("{} has no number of workers from 1 to {}", quoted(one), kMaxWorkers));
    }
    const bool is_new = std::none_of(
        racks.begin(), racks.end(), [&](const RackSpec& other) { return other.name == rack.name; });
    if (!is_new) return wrong("rack \"" + rack.name + "\" is there twice");
    racks.push_back(std::move(rack));
  }
  if (racks.size() < 2) return wrong("a job spans two racks or more");
  return racks;
}

std::string text_of(const std::vector<RackSpec>& racks) {
  std::string text;
  for (const RackSpec& rack : racks) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", rack.name, rack.workers);
  }
  return text;
}

}  // namespace phub

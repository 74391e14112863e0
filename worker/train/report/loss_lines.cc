#include "worker/train/report/loss_lines.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace phub::train {
namespace {

constexpr std::string_view kRest = "images/s no longer count its images";

}  // namespace

std::vector<std::string> LossLines::look(const std::vector<std::uint32_t>& lost) {
  std::set<std::uint32_t> news;
  for (const std::uint32_t worker : lost) {
    if (told_.insert(worker).second) news.insert(worker);
  }
  std::vector<std::string> lines;
  std::uint32_t first = 0;
  for (const RackSpec& rack : racks_) {
    const auto begin = news.lower_bound(first);
    const auto end = news.lower_bound(first += rack.workers);
    if (std::distance(begin, end) != rack.workers) continue;
    lines.push_back(
        fmt::format("rack {} was lost, and training goes on without it; {}", rack.name, kRest));
    news.erase(begin, end);
  }
  for (const std::uint32_t worker : news) {
    lines.push_back(
        fmt::format("worker {} was lost, and training goes on without it; {}", worker, kRest));
  }
  return lines;
}

}  // namespace phub::train

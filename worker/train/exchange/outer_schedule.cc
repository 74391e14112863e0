#include "worker/train/exchange/outer_schedule.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace phub::train {

Result<std::vector<std::uint32_t>> fragments_of(const PlanInput& plan_input,
                                                std::uint32_t fragments) {
  PHUB_ASSIGN_OR_RETURN(const Plan plan, make_plan(plan_input));
  const std::vector<std::uint64_t>& sizes = plan_input.key_elements;
  const std::uint64_t all = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  std::vector<std::uint32_t> result(sizes.size());
  std::uint64_t before = 0;
  for (std::size_t key = 0; key < sizes.size();) {
    std::size_t end = key + 1;
    std::uint64_t together = sizes[key];
    const auto last_chunk = [&](std::size_t of) {
      return plan.first_chunk[of] + plan.chunk_count[of] - 1;
    };
    while (end < sizes.size() && plan.first_chunk[end] == last_chunk(end - 1)) {
      together += sizes[end++];
    }
    // Where the middle of them lies says which fragment they are of.
    const double middle = static_cast<double>(before) + static_cast<double>(together) / 2;
    const double place = middle / static_cast<double>(all) * fragments;
    const std::uint32_t fragment = std::min(static_cast<std::uint32_t>(place), fragments - 1);
    std::fill(result.begin() + static_cast<std::ptrdiff_t>(key),
              result.begin() + static_cast<std::ptrdiff_t>(end), fragment);
    before += together;
    key = end;
  }
  return result;
}

}  // namespace phub::train

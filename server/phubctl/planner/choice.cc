#include "server/phubctl/planner/choice.h"

#include <algorithm>
#include <utility>

namespace phub::phubctl {
namespace {

constexpr RackShape kShapes[] = {RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                                 RackShape::kTree};
constexpr std::uint32_t kChunkMin = 4 * 1024;
constexpr std::uint32_t kChunkMax = 4 * 1024 * 1024;
constexpr double kAsGood = 1.01;

cost::Exchange exchange_of(const cost::RackNetwork& network, RackShape shape) {
  const auto racks = static_cast<std::uint32_t>(network.workers.size());
  return cost::rack_exchange(network, make_rack_trees(racks, shape));
}

Alternative alternative_of(std::string name, const cost::Exchange& exchange, double bytes) {
  return {.shape = std::move(name),
          .seconds = exchange.seconds(bytes),
          .latency_seconds = exchange.latency,
          .bound = exchange.bound,
          .obstacle = {}};
}

void choose_chunk(cost::RackNetwork network, const PlannedJob& job, Choice& choice) {
  std::vector<std::pair<std::uint32_t, double>> sizes;
  double best = 0.0;
  for (std::uint32_t size = kChunkMin; size <= kChunkMax; size *= 2) {
    network.chunk_bytes = size;
    const double seconds = exchange_of(network, choice.shape).seconds(job.bytes);
    best = sizes.empty() ? seconds : std::min(best, seconds);
    sizes.emplace_back(size, seconds);
  }
  choice.chunk_bytes = job.chunk_bytes;
  choice.chunk_seconds = choice.taken().seconds;
  if (choice.chunk_seconds <= best * kAsGood) return;
  const auto found = std::find_if(sizes.begin(), sizes.end(),
                                  [&](const auto& size) { return size.second <= best * kAsGood; });
  choice.chunk_bytes = found->first;
  choice.chunk_seconds = found->second;
}

}  // namespace

Result<Choice> choose_shape(const control::Probe& probe, const PlannedJob& job,
                            const NicRates& rates) {
  if (!(job.bytes > 0)) {
    return Status(Code::kInvalidArgument,
                  "the size of the model is not known: give its keys, or --bytes");
  }
  PHUB_ASSIGN_OR_RETURN(ProbedNetwork probed, network_of(probe, job.racks, rates));
  cost::RackNetwork& network = probed.network;
  network.chunk_bytes = job.chunk_bytes;
  network.sum_ratio = 1.0 * job.sum_bytes_an_element / job.bytes_an_element;
  Choice choice;
  choice.assumptions = std::move(probed.assumptions);
  for (const RackShape shape : kShapes) {
    choice.alternatives.push_back(
        alternative_of(std::string(name_of(shape)), exchange_of(network, shape), job.bytes));
    if (shape == RackShape::kTree) {
      choice.alternatives.back().obstacle = "to compare with: multicolour spreads its load";
    }
    if (job.is_voted && shape != RackShape::kSpread) {
      choice.alternatives.back().obstacle = "the workers' votes need spread";
    }
  }
  for (const RackShape shape : kShapes) {
    const Alternative& one = choice.alternatives[static_cast<std::size_t>(shape)];
    // Of shapes that take as long the first is taken.
    if (one.obstacle.empty() && one.seconds < choice.taken().seconds) choice.shape = shape;
  }
  choice.alternatives.push_back(alternative_of("flat", cost::flat_exchange(network), job.bytes));
  choose_chunk(std::move(network), job, choice);
  return choice;
}

}  // namespace phub::phubctl

#include "server/phubctl/planner/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/cost/compression.h"
#include "common/plan/plan.h"

namespace phub::phubctl {
namespace {

constexpr RackShape kShapes[] = {RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                                 RackShape::kHybrid, RackShape::kTree,  RackShape::kNested};
constexpr std::uint32_t kChunkMin = 4 * 1024;
constexpr std::uint32_t kChunkMax = 4 * 1024 * 1024;
constexpr double kKeyMax = 1e15;  // bytes
constexpr double kAsGood = 1.01;

cost::Exchange exchange_of(const cost::RackNetwork& network, RackShape shape,
                           const KeyGroups& groups) {
  const auto racks = static_cast<std::uint32_t>(network.workers.size());
  const std::vector<RackTree> trees = make_rack_trees(network.names, shape);
  if (shape != RackShape::kHybrid) return cost::rack_exchange(network, trees);
  // As many trees for small keys as for large ones.
  const double all = racks * (groups.small_bytes + groups.large_bytes);
  std::vector<double> shares(trees.size(), groups.large_bytes / all);
  std::fill_n(shares.begin(), small_key_trees(racks, shape), groups.small_bytes / all);
  return cost::rack_exchange(network, trees, shares);
}

// Of a key alone, the largest that is not later by one than by the other; in chunks' alignment.
double threshold_of(const cost::Exchange& small, const cost::Exchange& large) {
  const auto is_small = [&](double bytes) { return small.seconds(bytes) <= large.seconds(bytes); };
  double least = kChunkAlignment;
  if (!is_small(least)) return 0.0;
  while (least < kKeyMax && is_small(2 * least)) least *= 2;
  if (least >= kKeyMax) return std::numeric_limits<double>::infinity();
  double most = 2 * least;
  while (most - least > kChunkAlignment) {
    const double middle = (least + most) / 2;
    (is_small(middle) ? least : most) = middle;
  }
  return std::floor(least / kChunkAlignment) * kChunkAlignment;
}

KeyGroups groups_of(const cost::RackNetwork& network, const PlannedJob& job) {
  KeyGroups groups;
  const cost::Exchange spread = exchange_of(network, RackShape::kSpread, {});
  groups.threshold =
      job.hybrid_bytes.value_or(threshold_of(spread, exchange_of(network, RackShape::kChain, {})));
  groups.seconds = spread.seconds(groups.threshold);
  if (job.key_bytes.empty()) groups.large_bytes = job.bytes;
  for (const double bytes : job.key_bytes) {
    const bool is_small = bytes <= std::max(groups.threshold, fused_key_bytes(job.chunk_bytes));
    ++(is_small ? groups.small_keys : groups.large_keys);
    (is_small ? groups.small_bytes : groups.large_bytes) += bytes;
  }
  return groups;
}

Alternative alternative_of(std::string name, const cost::Exchange& exchange,
                           const PlannedJob& job) {
  return {.shape = std::move(name),
          .seconds = exchange.seconds(job.bytes),
          .small_seconds = exchange.seconds(std::min<double>(job.bytes, job.chunk_bytes)),
          .latency_seconds = exchange.latency,
          .bound = exchange.bound,
          .obstacle = {}};
}

std::string nesting_obstacle(const PlannedJob& job) {
  std::vector<std::string> names;
  for (const RackSpec& rack : job.racks) names.push_back(rack.name);
  if (rack_groups(names).empty()) return "the racks' names have no levels: as spread";
  return nesting_fault(names).empty() ? "" : "the racks' names have not all as many levels";
}

std::string obstacle_of(RackShape shape, const PlannedJob& job, const KeyGroups& groups) {
  if (job.is_voted && shape != RackShape::kSpread) return "the workers' votes need spread";
  if (shape == RackShape::kTree) return "to compare with: multicolour spreads its load";
  if (shape == RackShape::kNested) return nesting_obstacle(job);
  if (shape != RackShape::kHybrid) return "";
  if (job.key_bytes.empty()) return "the sizes of the keys are not known";
  if (groups.large_keys == 0) return "all keys are small: as spread";
  if (groups.small_keys == 0) return "all keys are large: as chain";
  return "";
}

void add_shapes(const cost::RackNetwork& network, const PlannedJob& job, Choice& choice) {
  for (const RackShape shape : kShapes) {
    choice.alternatives.push_back(alternative_of(std::string(name_of(shape)),
                                                 exchange_of(network, shape, choice.groups), job));
    Alternative& added = choice.alternatives.back();
    added.obstacle = obstacle_of(shape, job, choice.groups);
    if (shape != RackShape::kHybrid || choice.groups.small_keys == 0) continue;
    added.small_seconds = choice.alternatives.front().small_seconds;
  }
  double fastest = choice.alternatives.front().seconds;  // which every job can have
  for (const Alternative& one : choice.alternatives) {
    if (one.obstacle.empty()) fastest = std::min(fastest, one.seconds);
  }
  double soonest = std::numeric_limits<double>::infinity();
  for (const RackShape shape : kShapes) {
    const Alternative& one = choice.alternatives[static_cast<std::size_t>(shape)];
    if (!one.obstacle.empty() || one.seconds > kAsGood * fastest) continue;
    if (one.small_seconds >= soonest) continue;  // of shapes that are alike the first is taken
    soonest = one.small_seconds;
    choice.shape = shape;
  }
}

void choose_chunk(cost::RackNetwork network, const PlannedJob& job, Choice& choice) {
  std::vector<std::pair<std::uint32_t, double>> sizes;
  double best = 0.0;
  for (std::uint32_t size = kChunkMin; size <= kChunkMax; size *= 2) {
    network.chunk_bytes = size;
    const double seconds = exchange_of(network, choice.shape, choice.groups).seconds(job.bytes);
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

// The share of the job's bytes that goes whole with rack_compress. Of keys that are not known none.
double uncompressed_share(const PlannedJob& job) {
  double all = 0.0;
  double small = 0.0;
  for (const double bytes : job.key_bytes) {
    const bool is_small =
        bytes < static_cast<double>(job.rack_dense_below) * job.bytes_an_element ||
        bytes <= fused_key_bytes(job.chunk_bytes);
    all += bytes;
    if (is_small) small += bytes;
  }
  return all > 0.0 ? small / all : 0.0;
}

Choice choose_on(cost::RackNetwork network, const PlannedJob& job) {
  network.chunk_bytes = job.chunk_bytes;
  network.sums = {.whole = 1.0 * job.sum_bytes_an_element / job.bytes_an_element,
                  .density = job.rack_density,
                  .uncompressed = uncompressed_share(job)};
  Choice choice;
  choice.groups = groups_of(network, job);
  add_shapes(network, job, choice);
  choice.alternatives.push_back(alternative_of("flat", cost::flat_exchange(network), job));
  choose_chunk(std::move(network), job, choice);
  return choice;
}

CompressedRacks compare_compressed(const cost::RackNetwork& network, const PlannedJob& job,
                                   const Choice& own) {
  const bool is_on = job.rack_density > 0.0;
  PlannedJob other = job;
  other.rack_density = is_on ? 0.0 : kOfferedDensity;
  const double seconds = choose_on(network, other).taken().seconds;
  return {.density = is_on ? job.rack_density : kOfferedDensity,
          .seconds = is_on ? own.taken().seconds : seconds,
          .whole_seconds = is_on ? seconds : own.taken().seconds};
}

}  // namespace

bool CompressedRacks::is_faster() const {
  return seconds <= whole_seconds * (1.0 - cost::kLeastGain);
}

Result<Choice> choose_shape(const control::Probe& probe, const PlannedJob& job,
                            const NicRates& rates) {
  if (!(job.bytes > 0)) {
    return Status(Code::kInvalidArgument,
                  "the size of the model is not known: give its keys, or --bytes");
  }
  PHUB_ASSIGN_OR_RETURN(ProbedNetwork probed, network_of(probe, job.racks, rates));
  Choice choice = choose_on(probed.network, job);
  choice.assumptions = std::move(probed.assumptions);
  if (job.rack_density <= 0.0 && !job.may_compress) return choice;
  choice.compressed = compare_compressed(probed.network, job, choice);
  choice.assumptions.emplace_back(
      "racks choose other elements of their sums each, and choosing them takes servers no time");
  return choice;
}

}  // namespace phub::phubctl

#include "common/plan/place.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace phub {
namespace {

// Chunks that go to one core together.
struct Unit {
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 1;
  std::uint64_t elements = 0;
};

// Longest first.
std::vector<Unit> units_of(const Plan& plan, bool whole_keys) {
  std::vector<Unit> units;
  for (std::uint32_t id = 0; id < plan.chunks.size(); id += units.back().chunks) {
    const std::uint32_t key = plan.segments[plan.chunks[id].first_segment].key;
    Unit unit{.first_chunk = id, .chunks = whole_keys ? plan.chunk_count[key] : 1};
    for (std::uint32_t i = 0; i < unit.chunks; ++i) unit.elements += plan.chunks[id + i].elements;
    units.push_back(unit);
  }
  std::stable_sort(units.begin(), units.end(),
                   [](const Unit& a, const Unit& b) { return a.elements > b.elements; });
  return units;
}

template <typename Set>
void for_each_chunk(const Unit& unit, Plan& plan, Set set) {
  for (std::uint32_t i = 0; i < unit.chunks; ++i) set(plan.chunks[unit.first_chunk + i]);
}

// A job of one rack: to the least loaded core.
void place_on_cores(const PlanInput& input, const std::vector<Unit>& units, Plan& plan) {
  using Load = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;  // bytes, server, core
  std::priority_queue<Load, std::vector<Load>, std::greater<>> cores;
  std::size_t index = 0;
  for (std::uint32_t server = 0; server < input.cores_per_server.size(); ++server) {
    for (std::uint32_t core = 0; core < input.cores_per_server[server]; ++core) {
      cores.emplace(input.core_load_bytes.empty() ? 0 : input.core_load_bytes[index], server, core);
      ++index;
    }
  }
  for (const Unit& unit : units) {
    const auto [load, to_server, to_core] = cores.top();
    cores.pop();
    for_each_chunk(unit, plan, [server = to_server, core = to_core](Chunk& chunk) {
      chunk.server = server;
      chunk.core = core;
    });
    cores.emplace(load + unit.elements * size_of(input.wire_type), to_server, to_core);
  }
}

// The trees that a unit may go through, [first, last).
std::pair<std::uint32_t, std::uint32_t> trees_of(const PlanInput& input, const Plan& plan,
                                                 const Unit& unit) {
  if (input.small_key_trees == 0) return {0, input.rack_trees};
  const std::uint32_t key = plan.segments[plan.chunks[unit.first_chunk].first_segment].key;
  const std::uint64_t bytes = input.key_elements[key] * size_of(input.wire_type);
  const bool is_small = is_small_key(bytes, input.chunk_bytes) || bytes <= input.small_key_bytes;
  if (is_small) return {0, input.small_key_trees};
  return {input.small_key_trees, input.rack_trees};
}

// To the tree that has least.
void spread_over_trees(const PlanInput& input, const std::vector<Unit>& units, Plan& plan) {
  std::vector<std::uint64_t> load(input.rack_trees);
  for (const Unit& unit : units) {
    const auto [begin, end] = trees_of(input, plan, unit);
    std::uint32_t least = begin;
    for (std::uint32_t tree = begin; tree < end; ++tree) {
      if (load[tree] < load[least]) least = tree;
    }
    load[least] += unit.elements;
    for_each_chunk(unit, plan, [least](Chunk& chunk) { chunk.tree = least; });
  }
}

// Places (servers, or a server's cores) that are filled evenly, and evenly with each tree's units.
class EvenPlaces {
 public:
  EvenPlaces(std::uint32_t places, std::uint32_t trees)
      : trees_(trees), tree_load_(std::size_t{places} * trees) {
    for (std::uint32_t place = 0; place < places; ++place) order_.emplace(0, place);
  }

  // To the least loaded place. Of those that have hardly more, the one with least of the tree:
  // slices of a key differ by a line, and would go to places and to trees in one step.
  std::uint32_t add(std::uint64_t elements, std::uint32_t tree) {
    const std::uint64_t most = order_.begin()->first + elements / kHardly;
    auto best = order_.begin();
    std::size_t looks = 0;
    for (auto other = order_.begin(); other != order_.end() && other->first <= most; ++other) {
      if (looks++ == kLooksMax) break;
      if (of_tree(other->second, tree) < of_tree(best->second, tree)) best = other;
    }
    const auto [load, place] = *best;
    order_.erase(best);
    order_.emplace(load + elements, place);
    of_tree(place, tree) += elements;
    return place;
  }

 private:
  static constexpr std::uint64_t kHardly = 8;   // an eighth of what is placed
  static constexpr std::size_t kLooksMax = 64;  // a peer may ask for thousands of places

  std::uint64_t& of_tree(std::uint32_t place, std::uint32_t tree) {
    return tree_load_[std::size_t{place} * trees_ + tree];
  }

  const std::uint32_t trees_;
  std::vector<std::uint64_t> tree_load_;                     // [place][tree], elements
  std::set<std::pair<std::uint64_t, std::uint32_t>> order_;  // load, place
};

std::uint32_t trees_in(const Plan& plan) {
  std::uint32_t most = 0;
  for (const Chunk& chunk : plan.chunks) most = std::max(most, chunk.tree);
  return most + 1;
}

// Calls `set` with each of a server's units, and its core.
template <typename Set>
void place_on_server(const Plan& plan, const std::vector<Unit>& units, EvenPlaces cores, Set set) {
  for (const Unit& unit : units) {
    set(unit, cores.add(unit.elements, plan.chunks[unit.first_chunk].tree));
  }
}

void place_in_rack(const PlanInput& input, const std::vector<Unit>& units, Plan& plan) {
  spread_over_trees(input, units, plan);
  const auto servers = static_cast<std::uint32_t>(input.cores_per_server.size());
  EvenPlaces places(servers, input.rack_trees);
  std::vector<std::vector<Unit>> of_server(servers);
  for (const Unit& unit : units) {
    const std::uint32_t to = places.add(unit.elements, plan.chunks[unit.first_chunk].tree);
    for_each_chunk(unit, plan, [to](Chunk& chunk) { chunk.server = to; });
    of_server[to].push_back(unit);
  }
  for (std::uint32_t server = 0; server < servers; ++server) {
    place_on_server(plan, of_server[server],
                    EvenPlaces(input.cores_per_server[server], input.rack_trees),
                    [&](const Unit& unit, std::uint32_t to) {
                      for_each_chunk(unit, plan, [to](Chunk& chunk) { chunk.core = to; });
                    });
  }
}

}  // namespace

void place_chunks(const PlanInput& input, Plan& plan) {
  const std::vector<Unit> units = units_of(plan, input.whole_keys);
  input.rack_trees > 0 ? place_in_rack(input, units, plan) : place_on_cores(input, units, plan);
}

std::vector<std::uint32_t> cores_of_chunks(const Plan& plan, bool whole_keys, std::uint32_t server,
                                           std::uint32_t cores) {
  std::vector<Unit> units = units_of(plan, whole_keys);
  std::erase_if(units,
                [&](const Unit& unit) { return plan.chunks[unit.first_chunk].server != server; });
  std::vector<std::uint32_t> by_chunk(plan.chunks.size());
  place_on_server(plan, units, EvenPlaces(cores, trees_in(plan)),
                  [&](const Unit& unit, std::uint32_t core) {
                    std::fill_n(by_chunk.begin() + unit.first_chunk, unit.chunks, core);
                  });
  std::vector<std::uint32_t> here;
  for (std::uint32_t id = 0; id < plan.chunks.size(); ++id) {
    if (plan.chunks[id].server == server) here.push_back(by_chunk[id]);
  }
  return here;
}

}  // namespace phub

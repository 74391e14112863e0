// Plans whose chunks go through trees over racks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/rack_trees.h"

namespace phub {
namespace {

// Keys of 1 KiB (which share chunks), 4, 8 and 64 KiB, in chunks of 4 KiB, over three racks.
PlanInput hybrid_input() {
  PlanInput input;
  for (int i = 0; i < 12; ++i) input.key_elements.insert(input.key_elements.end(), {256, 1024});
  for (int i = 0; i < 6; ++i) input.key_elements.insert(input.key_elements.end(), {2048, 16'384});
  input.chunk_bytes = 4096;
  input.cores_per_server = {2};
  input.rack_trees = static_cast<std::uint32_t>(make_rack_trees(3, RackShape::kHybrid).size());
  input.small_key_trees = small_key_trees(3, RackShape::kHybrid);
  return input;
}

// Of keys of so many elements.
std::set<std::uint32_t> trees_of(const PlanInput& input, std::uint64_t elements) {
  const Plan plan = make_plan(input).value();
  std::set<std::uint32_t> trees;
  for (const Chunk& chunk : plan.chunks) {
    const std::uint32_t key = plan.segments[chunk.first_segment].key;
    if (input.key_elements[key] == elements) trees.insert(chunk.tree);
  }
  return trees;
}

bool are_small(const std::set<std::uint32_t>& trees) { return *trees.rbegin() < 3; }
bool are_large(const std::set<std::uint32_t>& trees) { return *trees.begin() >= 3; }

}  // namespace

TEST_CASE("hybrid has the trees of spread for small keys and those of chain for others") {
  for (const std::uint32_t racks : {2U, 3U, 7U}) {
    const auto both = make_rack_trees(racks, RackShape::kHybrid);
    const std::uint32_t small = small_key_trees(racks, RackShape::kHybrid);
    const auto middle = both.begin() + small;
    CHECK(std::vector(both.begin(), middle) == make_rack_trees(racks, RackShape::kSpread));
    CHECK(std::vector(middle, both.end()) == make_rack_trees(racks, RackShape::kChain));
  }
  CHECK(make_rack_trees(1, RackShape::kHybrid).empty());
  CHECK(small_key_trees(1, RackShape::kHybrid) == 0);
  CHECK(small_key_trees(3, RackShape::kChain) == 0);
}

TEST_CASE("keys that share chunks are small, larger ones up to the threshold too") {
  PlanInput input = hybrid_input();
  CHECK(are_small(trees_of(input, 256)));
  CHECK(are_large(trees_of(input, 1024)));
  input.small_key_bytes = 8192;
  CHECK(are_small(trees_of(input, 256)));
  CHECK(are_small(trees_of(input, 1024)));
  CHECK(are_small(trees_of(input, 2048)));
  CHECK(are_large(trees_of(input, 16'384)));
  input.small_key_bytes = 8191;
  CHECK(are_large(trees_of(input, 2048)));
  input.wire_type = DataType::kFloat16;  // in which it has half as many bytes
  CHECK(are_small(trees_of(input, 2048)));
  input.whole_keys = true;
  CHECK(are_small(trees_of(input, 2048)));
  CHECK(are_large(trees_of(input, 16'384)));
}

TEST_CASE("each group of keys is spread evenly over its trees") {
  PlanInput input = hybrid_input();
  input.small_key_bytes = 4096;
  const Plan plan = make_plan(input).value();
  std::vector<std::uint64_t> elements(input.rack_trees);
  for (const Chunk& chunk : plan.chunks) elements[chunk.tree] += chunk.elements;
  for (const std::uint32_t first : {0U, 3U}) {
    const auto [least, most] =
        std::minmax_element(elements.begin() + first, elements.begin() + first + 3);
    CHECK(*most - *least <= 2 * 1024);  // a chunk of each core
  }
}

TEST_CASE("plans of another threshold have another hash; trees for small keys only are refused") {
  PlanInput input = hybrid_input();
  const std::uint64_t hash = make_plan(input).value().hash;
  input.small_key_bytes = 1;  // which changes no tree
  CHECK(make_plan(input).value().hash != hash);
  input.small_key_trees = input.rack_trees;
  const auto refused = make_plan(input);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message(), Catch::Matchers::Contains("small_key_trees"));
}

}  // namespace phub

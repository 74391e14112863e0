// Trees over racks whose names say in which row and site they are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/rack.h"
#include "common/plan/rack_trees.h"
#include "tests/support/nested_names.h"

namespace phub {
namespace {

using Names = std::vector<std::string>;
using testing::nested_names;

bool is_in(const RackGroup& group, std::uint32_t rack) {
  return std::binary_search(group.racks.begin(), group.racks.end(), rack);
}

std::uint32_t root_of(const RackTree& tree) {
  const auto root = std::find(tree.parent.begin(), tree.parent.end(), RackTree::kNone);
  return static_cast<std::uint32_t>(root - tree.parent.begin());
}

// Racks of the group whose sums leave it.
std::vector<std::uint32_t> heads_of(const RackTree& tree, const RackGroup& group) {
  std::vector<std::uint32_t> heads;
  for (const std::uint32_t rack : group.racks) {
    const std::uint32_t above = tree.parent[rack];
    if (above != RackTree::kNone && !is_in(group, above)) heads.push_back(rack);
  }
  return heads;
}

const Names kUneven = {"a/x/1", "b/x/1", "a/y/1", "a/x/2", "b/z/1", "b/z/2", "b/z/3"};

}  // namespace

TEST_CASE("names with levels are of groups, each after those around it") {
  const auto groups = rack_groups(kUneven);
  Names names;
  for (const RackGroup& group : groups) names.push_back(group.name);
  CHECK(names == Names{"a", "b", "a/x", "a/y", "b/x", "b/z"});
  CHECK(groups[0].racks == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(groups[5].racks == std::vector<std::uint32_t>{4, 5, 6});
  CHECK(rack_groups({"a", "b"}).empty());
}

TEST_CASE("nested has a tree for each rack, in which every rack gets to the root") {
  for (const Names& names : {nested_names(2), nested_names(8), nested_names(11), kUneven}) {
    const auto trees = make_rack_trees(names, RackShape::kNested);
    REQUIRE(trees.size() == names.size());
    for (std::uint32_t root = 0; root < names.size(); ++root) {
      REQUIRE(trees[root].parent[root] == RackTree::kNone);
      for (std::uint32_t rack = 0; rack < names.size(); ++rack) {
        std::uint32_t at = rack;
        std::size_t steps = 0;
        while (at != root && ++steps <= 3) at = trees[root].parent.at(at);
        CHECK(at == root);
      }
    }
  }
}

TEST_CASE("one sum leaves each group that the root is not in, and none that of the root") {
  for (const Names& names : {nested_names(8), nested_names(11), kUneven}) {
    for (const RackTree& tree : make_rack_trees(names, RackShape::kNested)) {
      for (const RackGroup& group : rack_groups(names)) {
        INFO(group.name << " below " << names[root_of(tree)]);
        CHECK(heads_of(tree, group).size() == (is_in(group, root_of(tree)) ? 0 : 1));
      }
    }
  }
}

TEST_CASE("a group's racks are its heads about equally often") {
  for (const Names& names : {nested_names(8), nested_names(16), kUneven}) {
    for (const RackGroup& group : rack_groups(names)) {
      std::vector<int> times(names.size(), 0);
      for (const RackTree& tree : make_rack_trees(names, RackShape::kNested)) {
        for (const std::uint32_t head : heads_of(tree, group)) ++times[head];
      }
      int least = times[group.racks.front()];
      int most = least;
      for (const std::uint32_t rack : group.racks) {
        least = std::min(least, times[rack]);
        most = std::max(most, times[rack]);
      }
      INFO(group.name << " of " << names.size() << ": " << least << " to " << most);
      CHECK(most - least <= 2);  // of a row also as heads of its site
    }
  }
}

TEST_CASE("racks without levels are nested as they are spread") {
  for (const std::uint32_t racks : {0U, 1U, 2U, 5U}) {
    Names names;
    for (std::uint32_t rack = 0; rack < racks; ++rack) names.push_back(std::to_string(rack));
    const auto spread = make_rack_trees(racks, RackShape::kSpread);
    CHECK(make_rack_trees(names, RackShape::kNested) == spread);
    CHECK(make_rack_trees(racks, RackShape::kNested) == spread);
  }
}

TEST_CASE("names of another depth are said, with what to do") {
  CHECK(nesting_fault({}).empty());
  CHECK(nesting_fault(kUneven).empty());
  CHECK_THAT(nesting_fault({"s/a", "s/b", "c"}),
             Catch::Contains("\"s/a\" has 2, \"c\" has 1: rename one, or take another shape"));
}

TEST_CASE("levels of a rack's name are names") {
  for (const char* name : {"a", "site1/row2/rack3", "1/2", "a.b/c-d/e_f"}) {
    INFO(name);
    CHECK(is_rack_name(name));
  }
  for (const char* name : {"", "/", "/a", "a/", "a//b", "a/-b", "a/.b", "a/..", "../a", "a/ b"}) {
    INFO(name);
    CHECK_FALSE(is_rack_name(name));
  }
  CHECK(is_rack_name(std::string(32, 'a') + "/" + std::string(31, 'b')));
  CHECK_FALSE(is_rack_name(std::string(32, 'a') + "/" + std::string(32, 'b')));
}

}  // namespace phub

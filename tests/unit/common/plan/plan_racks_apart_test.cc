// Plans of racks whose servers have other numbers of cores: they differ in cores alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "common/plan/place.h"
#include "common/plan/rack_trees.h"

namespace phub {
namespace {

// Keys that share chunks, and slices of keys, which differ by a line.
PlanInput input_of(const std::vector<std::uint32_t>& cores_per_server, std::uint32_t trees) {
  PlanInput input;
  for (int i = 0; i < 20; ++i) input.key_elements.insert(input.key_elements.end(), {256, 100'000});
  for (int i = 0; i < 20; ++i) input.key_elements.insert(input.key_elements.end(), {1999, 16'385});
  input.chunk_bytes = 4096;
  input.cores_per_server = cores_per_server;
  input.rack_trees = trees;
  return input;
}

std::vector<std::uint32_t> cores_on(const Plan& plan, std::uint32_t server) {
  std::vector<std::uint32_t> cores;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server == server) cores.push_back(chunk.core);
  }
  return cores;
}

}  // namespace

TEST_CASE("a chunk's server and tree depend on no server's cores") {
  for (const bool whole_keys : {false, true}) {
    PlanInput input = input_of({1, 1}, 3);
    input.whole_keys = whole_keys;
    const Plan one = make_plan(input).value();
    input.cores_per_server = {3, 2};
    const Plan other = make_plan(input).value();
    REQUIRE(one.chunks.size() == other.chunks.size());
    for (std::size_t id = 0; id < one.chunks.size(); ++id) {
      REQUIRE(one.chunks[id].server == other.chunks[id].server);
      REQUIRE(one.chunks[id].tree == other.chunks[id].tree);
      REQUIRE(one.chunks[id].arena_offset == other.chunks[id].arena_offset);
    }
    CHECK(one.racks_hash == other.racks_hash);
    CHECK(one.hash != other.hash);
  }
}

TEST_CASE("a plan tells on which cores another rack's server has its chunks") {
  for (const bool whole_keys : {false, true}) {
    PlanInput input = input_of({3, 2}, 2);
    input.whole_keys = whole_keys;
    const Plan other = make_plan(input).value();
    input.cores_per_server = {1, 4};
    const Plan own = make_plan(input).value();
    CHECK(cores_of_chunks(own, whole_keys, 0, 3) == cores_on(other, 0));
    CHECK(cores_of_chunks(own, whole_keys, 1, 2) == cores_on(other, 1));
    CHECK(cores_of_chunks(own, whole_keys, 1, 4) == cores_on(own, 1));
  }
}

TEST_CASE("what racks have alike has another hash for other servers, trees and keys") {
  const PlanInput input = input_of({2, 2}, 3);
  const std::uint64_t hash = make_plan(input).value().racks_hash;
  CHECK(hash != 0);
  CHECK(make_plan(input_of({2, 2, 1}, 3)).value().racks_hash != hash);
  CHECK(make_plan(input_of({2, 2}, 4)).value().racks_hash != hash);
  PlanInput more = input;
  more.key_elements.push_back(8);
  CHECK(make_plan(more).value().racks_hash != hash);
  CHECK(make_plan(input_of({2, 2}, 0)).value().racks_hash == 0);
}

TEST_CASE("each core has an even share, and of each tree") {
  for (const std::vector<std::uint32_t>& cores :
       std::vector<std::vector<std::uint32_t>>{{1}, {2}, {3}, {4, 4}, {8, 2}, {2, 2, 2}}) {
    for (const std::uint32_t trees : {1U, 2U, 3U, 4U}) {
      const Plan plan = make_plan(input_of(cores, trees)).value();
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> of_core;
      std::map<std::uint32_t, std::uint64_t> of_server;
      std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint64_t> of_tree;
      for (const Chunk& chunk : plan.chunks) {
        of_core[{chunk.server, chunk.core}] += chunk.elements;
        of_server[chunk.server] += chunk.elements;
        of_tree[{chunk.server, chunk.core, chunk.tree}] += chunk.elements;
      }
      const auto spread = [](const auto& loads) {
        std::uint64_t least = UINT64_MAX;
        std::uint64_t most = 0;
        for (const auto& [place, load] : loads) {
          least = std::min(least, load);
          most = std::max(most, load);
        }
        return most - least;
      };
      INFO("trees " << trees << ", servers " << cores.size() << ", cores " << cores[0]);
      CHECK(spread(of_server) <= 2 * 1024);
      CHECK(of_tree.size() == of_core.size() * trees);
      for (const auto& [place, load] : of_core) {
        const std::uint64_t even = of_server[place.first] / cores[place.first];
        CHECK(std::max(load, even) - std::min(load, even) <= 2 * 1024);
        for (std::uint32_t tree = 0; tree < trees; ++tree) {
          const std::uint64_t share = of_tree[{place.first, place.second, tree}];
          CHECK(share * trees < load * 3 / 2);
        }
      }
    }
  }
}

}  // namespace phub

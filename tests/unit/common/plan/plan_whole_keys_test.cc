// Plans that keep the chunks of a key together.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

#include "common/plan/plan.h"

namespace phub {
namespace {

std::vector<std::uint64_t> loads_of(const PlanInput& input, const Plan& plan) {
  std::vector<std::uint64_t> loads;
  for (const auto& cores : plan.core_chunks) {
    for (const auto& chunks : cores) {
      std::uint64_t elements = 0;
      for (const std::uint32_t id : chunks) elements += plan.chunks[id].elements;
      loads.push_back(elements * size_of(input.wire_type));
    }
  }
  return loads;
}

PlanInput random_whole_input(std::uint32_t seed) {
  std::mt19937 random(seed);
  PlanInput input;
  input.whole_keys = true;
  input.chunk_bytes = 4096;
  input.wire_type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
  input.cores_per_server.resize(1 + random() % 3);
  for (auto& cores : input.cores_per_server) cores = 1 + static_cast<std::uint32_t>(random() % 4);
  input.key_elements.resize(1 + random() % 60);
  for (auto& elements : input.key_elements) elements = 1 + random() % (1U << (random() % 16));
  return input;
}

TEST_CASE("with whole keys all chunks of a key have neighbouring slots of one core") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const PlanInput input = random_whole_input(seed);
    const Plan plan = make_plan(input).value();
    for (std::size_t key = 0; key < input.key_elements.size(); ++key) {
      const Chunk& first = plan.chunks[plan.first_chunk[key]];
      for (std::uint32_t i = 0; i < plan.chunk_count[key]; ++i) {
        const Chunk& chunk = plan.chunks[plan.first_chunk[key] + i];
        REQUIRE(chunk.server == first.server);
        REQUIRE(chunk.core == first.core);
        REQUIRE(chunk.slot == first.slot + i);
      }
    }
  }
}

TEST_CASE("with whole keys chunks and arena are cut as without") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    PlanInput input = random_whole_input(seed);
    const Plan whole = make_plan(input).value();
    input.whole_keys = false;
    const Plan split = make_plan(input).value();
    CHECK(whole.hash != split.hash);
    CHECK(whole.arena_elements == split.arena_elements);
    REQUIRE(whole.chunks.size() == split.chunks.size());
    for (std::size_t id = 0; id < whole.chunks.size(); ++id) {
      REQUIRE(whole.chunks[id].arena_offset == split.chunks[id].arena_offset);
      REQUIRE(whole.chunks[id].elements == split.chunks[id].elements);
    }
  }
}

// No core takes a unit when it already has more than the mean: then one with less would have.
TEST_CASE("with whole keys no core has more than the mean and the largest key") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const PlanInput input = random_whole_input(seed);
    const Plan plan = make_plan(input).value();
    const auto loads = loads_of(input, plan);
    const std::uint64_t all = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
    const std::uint64_t largest =
        *std::max_element(input.key_elements.begin(), input.key_elements.end()) *
        size_of(input.wire_type);
    const std::uint64_t unit = std::max<std::uint64_t>(largest, input.chunk_bytes);
    CHECK(*std::max_element(loads.begin(), loads.end()) <= all / loads.size() + unit);
  }
}

TEST_CASE("with whole keys the longest go first: two large keys do not share a core") {
  const PlanInput input = {.key_elements = {100, 50'000, 20'000, 50'000, 20'000},
                           .cores_per_server = {1, 1},
                           .whole_keys = true};
  const Plan plan = make_plan(input).value();
  const auto server_of = [&](std::uint32_t key) {
    return plan.chunks[plan.first_chunk[key]].server;
  };
  CHECK(server_of(1) != server_of(3));
  CHECK(server_of(2) != server_of(4));
}

}  // namespace
}  // namespace phub

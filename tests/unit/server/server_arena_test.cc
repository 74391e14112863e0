// A server's chunks are packed: each has a place of its own, and other servers' have none.
#include <catch2/catch.hpp>

#include "server/job/arena.h"

namespace phub::server {
namespace {

Plan plan_of(DataType wire_type, std::vector<std::uint32_t> cores_per_server) {
  PlanInput input{.key_elements = {100'000, 17, 3, 40'001, 8192},
                  .wire_type = wire_type,
                  .chunk_bytes = 4096,
                  .cores_per_server = std::move(cores_per_server)};
  return std::move(*make_plan(input));
}

}  // namespace

TEST_CASE("chunks of one server of several lie one behind the other, on cache lines") {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    const Plan plan = plan_of(type, {2, 1, 1});
    const std::uint64_t line = kChunkAlignment / size_of(type);
    std::uint64_t all = 0;
    for (std::uint32_t server = 0; server < 3; ++server) {
      const ServerArena arena(plan, server, type);
      CHECK_FALSE(arena.is_whole());
      std::uint64_t end = 0;
      for (const Chunk& chunk : plan.chunks) {
        if (chunk.server != server) continue;
        REQUIRE(arena.at(chunk.arena_offset) == end);
        REQUIRE(end % line == 0);
        REQUIRE(arena.at(chunk.arena_offset + chunk.elements - 1) == end + chunk.elements - 1);
        end += (chunk.elements + line - 1) / line * line;
      }
      CHECK(arena.elements() == end);
      all += end;
    }
    CHECK(all == plan.arena_elements);
  }
}

TEST_CASE("the only server of a job has the plan's arena") {
  const Plan plan = plan_of(DataType::kFloat32, {3});
  const ServerArena arena(plan, 0, DataType::kFloat32);
  CHECK(arena.is_whole());
  CHECK(arena.elements() == plan.arena_elements);
  for (const Chunk& chunk : plan.chunks)
    REQUIRE(arena.at(chunk.arena_offset) == chunk.arena_offset);
}

TEST_CASE("a server that has no chunk has memory that can be mapped") {
  PlanInput input{.key_elements = {16}, .cores_per_server = {1, 1}, .core_load_bytes = {1000, 0}};
  const Plan plan = std::move(*make_plan(input));
  REQUIRE(plan.core_chunks[0][0].empty());
  CHECK(ServerArena(plan, 0, DataType::kFloat32).elements() > 0);
}

}  // namespace phub::server

// A job's parameters and optimizer state as they were when a round was over: what a snapshot
// writes, and what a restored job starts from.
//
// Only this server's chunks have a place in it (arena.h); elements are counted as in the
// plan's arena. Filled by the cores between begin_copy and the last chunk, each its own chunks;
// constant afterwards.
#pragma once

#include <cstring>
#include <memory>

#include "common/base/status.h"
#include "common/memory/memory.h"
#include "common/plan/plan.h"
#include "server/job/arena.h"

namespace phub::server {

struct JobCopy {
  const ServerArena arena;
  std::uint64_t round = 0;  // as many rounds each chunk has behind it, the first one included
  std::unique_ptr<Mapping> parameters;  // fp32
  std::unique_ptr<Mapping> state;       // fp32; null: the rule has none

  explicit JobCopy(const ServerArena& arena_) : arena(arena_) {}

  static Result<std::shared_ptr<JobCopy>> create(const Plan& plan, std::uint32_t server,
                                                 bool has_state) {
    auto copy = std::make_shared<JobCopy>(ServerArena(plan, server, DataType::kFloat32));
    const std::size_t bytes = copy->arena.elements() * sizeof(float);
    PHUB_ASSIGN_OR_RETURN(copy->parameters, Mapping::anonymous(bytes));
    if (has_state) {
      PHUB_ASSIGN_OR_RETURN(copy->state, Mapping::anonymous(bytes));
    }
    return copy;
  }

  float* parameters_at(std::uint64_t element) const {
    return reinterpret_cast<float*>(parameters->data()) + arena.at(element);
  }
  float* state_at(std::uint64_t element) const {
    return state ? reinterpret_cast<float*>(state->data()) + arena.at(element) : nullptr;
  }

  // Makes the pages of a server's chunks resident, so that a core does not have to.
  void touch(const Plan& plan, std::uint32_t server) const {
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.server != server) continue;
      std::memset(parameters_at(chunk.arena_offset), 0, chunk.elements * sizeof(float));
      if (state) std::memset(state_at(chunk.arena_offset), 0, chunk.elements * sizeof(float));
    }
  }
};

}  // namespace phub::server

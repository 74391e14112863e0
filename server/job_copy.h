// A job's parameters and optimizer state as they were when a round was over: what a snapshot
// writes, and what a restored job starts from.
//
// Laid out as the job's arena (server/job_memory.h); only this server's chunks are touched. Filled
// by the cores between begin_copy and the last chunk, each its own chunks; constant afterwards.
#pragma once

#include <cstring>
#include <memory>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/plan.h"

namespace phub::server {

struct JobCopy {
  std::uint64_t round = 0;  // as many rounds each chunk has behind it, the first one included
  std::unique_ptr<Mapping> parameters;  // fp32
  std::unique_ptr<Mapping> state;       // fp32; null: the rule has none

  static Result<std::shared_ptr<JobCopy>> create(std::uint64_t arena_elements, bool has_state) {
    auto copy = std::make_shared<JobCopy>();
    const std::size_t bytes = arena_elements * sizeof(float);
    PHUB_ASSIGN_OR_RETURN(copy->parameters, Mapping::anonymous(bytes));
    if (has_state) {
      PHUB_ASSIGN_OR_RETURN(copy->state, Mapping::anonymous(bytes));
    }
    return copy;
  }

  float* parameters_at(std::uint64_t element) const {
    return reinterpret_cast<float*>(parameters->data()) + element;
  }
  float* state_at(std::uint64_t element) const {
    return state ? reinterpret_cast<float*>(state->data()) + element : nullptr;
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

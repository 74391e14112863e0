// A job's parameters and optimizer state as they were when a round was over: what a snapshot
// writes, and what a restored job starts from.
//
// Only this server's chunks have a place in it (arena.h); elements are counted as in the
// plan's arena. Filled by the cores between begin_copy and the last chunk, each its own chunks;
// constant afterwards.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>

#include "common/base/status.h"
#include "common/memory/memory.h"
#include "common/plan/plan.h"
#include "common/samples/ledger.h"
#include "server/job/arena.h"

namespace phub::server {

struct JobCopy {
  const ServerArena arena;
  SampleLedger samples{};   // of a restored one: what its rounds have used
  std::uint64_t round = 0;  // as many rounds each chunk has behind it, the first one included
  std::unique_ptr<Mapping> parameters;  // fp32
  std::unique_ptr<Mapping> state;       // fp32, array behind array; null: the rule has none
  unsigned state_arrays = 0;

  explicit JobCopy(const ServerArena& arena_) : arena(arena_) {}

  static Result<std::shared_ptr<JobCopy>> create(const Plan& plan, std::uint32_t server,
                                                 unsigned state_arrays) {
    auto copy = std::make_shared<JobCopy>(ServerArena(plan, server, DataType::kFloat32));
    const std::size_t bytes = copy->arena.elements() * sizeof(float);
    PHUB_ASSIGN_OR_RETURN(copy->parameters, Mapping::anonymous(bytes));
    copy->state_arrays = state_arrays;
    if (state_arrays > 0) {
      PHUB_ASSIGN_OR_RETURN(copy->state, Mapping::anonymous(state_arrays * bytes));
    }
    return copy;
  }

  float* parameters_at(std::uint64_t element) const {
    return reinterpret_cast<float*>(parameters->data()) + arena.at(element);
  }
  // REQUIRES: array < state_arrays.
  float* state_at(std::uint64_t element, unsigned array = 0) const {
    return reinterpret_cast<float*>(state->data()) + array * arena.elements() + arena.at(element);
  }

  // Rounds that votes left out, all chunks alike: those of chunks that are updated elsewhere are
  // not known here.
  std::uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }
  // Any core; no other memory is published by it.
  void note_left_out(std::uint64_t rounds) {
    std::uint64_t seen = left_out();
    while (seen < rounds &&
           !left_out_.compare_exchange_weak(seen, rounds, std::memory_order_relaxed)) {
    }
  }

  // Makes the pages of a server's chunks resident, so that a core does not have to.
  void touch(const Plan& plan, std::uint32_t server) const {
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.server != server) continue;
      std::memset(parameters_at(chunk.arena_offset), 0, chunk.elements * sizeof(float));
      for (unsigned array = 0; array < state_arrays; ++array) {
        std::memset(state_at(chunk.arena_offset, array), 0, chunk.elements * sizeof(float));
      }
    }
  }

 private:
  std::atomic<std::uint64_t> left_out_ = 0;
};

}  // namespace phub::server

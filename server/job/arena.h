// Where one server keeps its chunks: packed, in the order of the plan's arena.
//
// A plan's arena has the chunks of all servers; what another server has takes no memory here, and
// no addresses either, or a job with a key of terabytes elsewhere would use them up. Chunks that
// are neighbours in the arena are neighbours here, and a job's only server has the arena itself.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/dtype.h"
#include "common/plan/plan.h"

namespace phub::server {

class ServerArena {
 public:
  ServerArena(const Plan& plan, std::uint32_t server, DataType wire_type);

  // All that is kept here, padding included.
  std::uint64_t elements() const { return elements_; }
  // Whether it is the plan's arena.
  bool is_whole() const { return runs_.empty(); }
  // Of an element of this server's chunks, counted in the plan's arena.
  std::uint64_t at(std::uint64_t arena_element) const;
  // Of this object's own memory.
  std::uint64_t bookkeeping_bytes() const { return runs_.size() * sizeof(Run); }

 private:
  // Neighbours in the arena, from `begin` on.
  struct Run {
    std::uint64_t begin;
    std::uint64_t home;
  };
  std::uint64_t elements_ = 0;
  std::vector<Run> runs_;  // by begin; empty: the plan's arena
};

}  // namespace phub::server

// Where the chunks of a plan go: which server, which of its cores, and through which tree over
// racks. make_plan is made of this.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace phub {

// Whether a key shares its chunk with its neighbours. A larger one is sliced.
inline bool is_small_key(std::uint64_t key_bytes, std::uint64_t chunk_bytes) {
  return key_bytes <= chunk_bytes / 4;
}

// Sets the server, core and tree of each chunk. REQUIRES: the chunks are cut.
//
// In a job of several racks a chunk's tree depends on the chunks alone, and its server on them and
// on how many servers a rack has. Only its core depends on its server's cores.
void place_chunks(const PlanInput& input, Plan& plan);

// Returns the cores that the chunks of `server` have if it has `cores` cores, in ascending order of
// chunks. This is how a server knows where the chunks are in another rack. REQUIRES: the plan is of
// a job of several racks; `whole_keys` is its input's.
std::vector<std::uint32_t> cores_of_chunks(const Plan& plan, bool whole_keys, std::uint32_t server,
                                           std::uint32_t cores);

}  // namespace phub

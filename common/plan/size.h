// How large a plan will be, known before it is made: its input may come from a peer.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "common/plan/plan.h"

namespace phub {

struct PlanSize {
  std::uint64_t chunks = 0;
  std::uint64_t segments = 0;
  std::uint64_t keys = 0;
};

inline PlanSize size_of(const Plan& plan) {
  return {plan.chunks.size(), plan.segments.size(), plan.key_offset.size()};
}

// Whether a key shares its chunk with its neighbours; a larger one is sliced.
inline bool is_small_key(std::uint64_t key_bytes, std::uint64_t chunk_bytes) {
  return key_bytes <= chunk_bytes / 4;
}

// Of the plan that make_plan would make, if the input is valid. Allocates nothing.
PlanSize size_of_plan(const PlanInput& input);

}  // namespace phub

// Where one-sided pushes land: the layout of the window that a core gives to a worker.
//
// A Hyper and a Vote first, then the core's chunks by slot, each on cache lines of its own. Both
// ends compute the same from the plan. A value; immutable, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan.h"

namespace phub {

struct Landing {
  static constexpr std::uint64_t kHyper = 0;  // bytes from the start of the window, as all here
  static constexpr std::uint64_t kVote = 32;  // in the Hyper's line
  std::vector<std::uint64_t> slots;
  std::uint64_t bytes = 0;  // of the window, a multiple of the page size
};

// With elements of `element_bytes` on the wire.
Landing make_landing(const Plan& plan, std::uint32_t server, std::uint32_t core,
                     std::size_t element_bytes);

}  // namespace phub

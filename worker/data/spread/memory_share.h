// How a worker's memory for a spread set is shared out. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace phub::data {

// What the memory has to do.
struct MemoryNeeds {
  std::uint64_t bytes = 0;       // data.spread.memory_mib
  std::uint64_t samples = 0;     // of the whole set
  std::uint32_t members = 1;     // workers that hold it together
  std::uint32_t readers = 1;     // threads that ask other members at the same time
  std::uint64_t link_bytes = 0;  // of the links to another member
};

struct MemoryShare {
  std::uint64_t held_bytes = 0;     // for samples
  std::uint32_t largest_bytes = 0;  // of an answer by another member; larger ones stay there
};

// The most samples that a member has to hold.
std::uint64_t most_own_samples(std::uint64_t samples, std::uint32_t members);

// The memory that the links to another member take.
std::uint64_t link_bytes(std::uint32_t readers, bool encrypts);

// Error: kInvalidArgument, too little is left for samples; with the figures.
Result<MemoryShare> share_memory(const MemoryNeeds& needs);

}  // namespace phub::data

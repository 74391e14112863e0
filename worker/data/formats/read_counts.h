// Where a set's images came from. A value.
#pragma once

#include <cstdint>

namespace phub::data {

// Since the set was opened; zeros for a set without a cache.
struct ReadCounts {
  std::uint64_t source = 0;  // its files
  std::uint64_t disk = 0;    // copies on a local disk
  std::uint64_t memory = 0;  // decoded images in shared memory

  std::uint64_t all() const { return source + disk + memory; }
  ReadCounts since(const ReadCounts& before) const {
    return {source - before.source, disk - before.disk, memory - before.memory};
  }
};

}  // namespace phub::data

#include "server/jobs/core_load.h"

#include <algorithm>

namespace phub::server {
namespace {

// Enough that what is left over does not matter.
constexpr std::uint64_t kPiecesMax = 1024;

}  // namespace

CoreLoad load_of(const Plan& plan, DataType wire_type, std::uint32_t server_index) {
  CoreLoad load(plan.core_chunks[server_index].size(), 0);
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server == server_index) load[chunk.core] += chunk.elements * size_of(wire_type);
  }
  return load;
}

CoreLoad expected_load(const CoreLoad& already, std::uint64_t bytes, std::uint32_t chunk_bytes) {
  CoreLoad total = already;
  if (total.empty()) return total;
  const std::uint64_t chunks = bytes / chunk_bytes + (bytes % chunk_bytes == 0 ? 0 : 1);
  const std::uint64_t pieces = std::clamp<std::uint64_t>(chunks, 1, kPiecesMax);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    *std::min_element(total.begin(), total.end()) += bytes / pieces;
  }
  for (std::size_t core = 0; core < total.size(); ++core) total[core] -= already[core];
  return total;
}

CoreLoad load_without(const JobIndex& index, const Job& job) {
  CoreLoad load(index.cores(), 0);
  for (const std::shared_ptr<Job>& other : index.all_live()) {
    if (other.get() == &job || other->members.empty()) continue;
    const CoreLoad& placed = other->place.placed_bytes;
    for (std::size_t core = 0; core < placed.size(); ++core) load[core] += placed[core];
  }
  return load;
}

// Jobs that have joined but are not planned yet count with a guess: otherwise jobs that start at
// the same moment would all choose the same core.
void fix_core_load(const JobIndex& index, Job& job) {
  JobPlace& place = job.place;
  if (place.memory != Memory::kNone) return;
  place.core_load_bytes = load_without(index, job);
  // Racks have one plan, so none looks at what else it has.
  if (!job.spec->racks.empty())
    std::fill_n(place.core_load_bytes.begin(), place.core_load_bytes.size(), 0);
  if (job.start.core_load_bytes.size() == place.core_load_bytes.size()) {
    place.core_load_bytes = job.start.core_load_bytes;
  }
  std::uint64_t elements = 0;
  for (const KeySpec& key : job.spec->keys) elements += key.elements;
  place.placed_bytes = expected_load(place.core_load_bytes, elements * size_of(job.spec->wire_type),
                                     job.spec->chunk_bytes);
}

}  // namespace phub::server

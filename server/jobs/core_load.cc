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

}  // namespace phub::server

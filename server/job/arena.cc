#include "server/job/arena.h"

#include <algorithm>

#include "common/base/check.h"

namespace phub::server {

ServerArena::ServerArena(const Plan& plan, std::uint32_t server, DataType wire_type) {
  if (plan.core_chunks.size() == 1) {
    elements_ = plan.arena_elements;
    return;
  }
  // A chunk begins on a cache line of the wire's type, as in the plan.
  const std::uint64_t line = kChunkAlignment / size_of(wire_type);
  std::uint64_t end = ~std::uint64_t{0};  // of the run, in the plan's arena
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server != server) continue;
    if (chunk.arena_offset != end) runs_.push_back({chunk.arena_offset, elements_});
    const std::uint64_t elements = (chunk.elements + line - 1) / line * line;
    end = chunk.arena_offset + elements;
    elements_ += elements;
  }
  if (runs_.empty()) runs_.push_back({0, 0});  // nothing here: not whole either
  elements_ = std::max(elements_, line);       // memory of no bytes cannot be mapped
}

std::uint64_t ServerArena::at(std::uint64_t arena_element) const {
  if (is_whole()) return arena_element;
  const auto next =
      std::upper_bound(runs_.begin(), runs_.end(), arena_element,
                       [](std::uint64_t element, const Run& run) { return element < run.begin; });
  PHUB_DCHECK(next != runs_.begin(), "an element of this server's chunks");
  const Run& run = *(next - 1);
  return run.home + (arena_element - run.begin);
}

}  // namespace phub::server

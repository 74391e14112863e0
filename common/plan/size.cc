#include "common/plan/size.h"

namespace phub {

PlanSize size_of_plan(const PlanInput& input) {
  const std::uint64_t element_bytes = size_of(input.wire_type);
  PlanSize size{.keys = input.key_elements.size()};
  std::uint64_t fused_bytes = 0;  // of the last chunk, while it may take another small key
  for (const std::uint64_t elements : input.key_elements) {
    const std::uint64_t bytes = elements * element_bytes;
    if (!is_small_key(bytes, input.chunk_bytes)) {
      const std::uint64_t slices = (bytes + input.chunk_bytes - 1) / input.chunk_bytes;
      size.chunks += slices;
      size.segments += slices;
      fused_bytes = 0;
      continue;
    }
    if (fused_bytes == 0 || fused_bytes + bytes > input.chunk_bytes) {
      ++size.chunks;
      fused_bytes = 0;
    }
    fused_bytes += bytes;
    ++size.segments;
  }
  return size;
}

}  // namespace phub

// Any key sizes: a plan, in which every element has exactly one place, or a clear refusal.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  phub::PlanInput input;
  input.chunk_bytes = 64U * (1U + data[0]);
  input.wire_type = data[1] % 2 == 0 ? phub::DataType::kFloat32 : phub::DataType::kBfloat16;
  for (unsigned i = 0; i < 1U + data[2] % 4U; ++i) input.cores_per_server.push_back(data[3] % 5U);
  for (std::size_t i = 4; i + 2 < size; i += 3) {
    input.key_elements.push_back(data[i] + 256ULL * data[i + 1] + 65536ULL * (data[i + 2] % 2U));
  }
  const auto plan = phub::make_plan(input);
  if (!plan) {
    if (plan.error().message().empty()) std::abort();
    return 0;
  }
  std::uint64_t placed = 0;
  std::uint64_t wanted = 0;
  for (const std::uint64_t elements : input.key_elements) wanted += elements;
  for (const phub::Segment& segment : plan->segments) placed += segment.elements;
  if (placed != wanted) std::abort();
  return 0;
}

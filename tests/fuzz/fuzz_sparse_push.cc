// Any bytes as a sparse push, or as the sum of another rack: a fault, or indices that can be added
// at.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "server/chunks/racks/rack_compression.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeader = 3;
  if (size < kHeader) return 0;
  const std::uint32_t elements = 1U + data[0] + 256U * data[1];
  const auto type = static_cast<phub::DataType>(data[2] % 3);
  std::vector<std::byte> bytes(size - kHeader);
  if (!bytes.empty()) std::memcpy(bytes.data(), data + kHeader, bytes.size());
  std::vector<float> sum(elements, 1.0F);
  const auto read = phub::server::RackCompression::read(bytes, sum);
  const bool is_kept = std::count(sum.begin(), sum.end(), 1.0F) == elements;
  if (read != phub::wire::SparseFault::kNone && !is_kept) std::abort();
  const auto parsed = phub::wire::parse_sparse(bytes, type, elements);
  if (parsed.fault != phub::wire::SparseFault::kNone) return 0;
  const phub::wire::SparsePush& push = parsed.push;
  if (bytes.size() != phub::wire::sparse_bytes(push.count, type)) std::abort();
  std::vector<bool> seen(elements);
  for (std::uint32_t i = 0; i < push.count; ++i) {
    const std::uint32_t index = push.indices[i];
    if (index >= elements || seen[index]) std::abort();
    seen[index] = true;
  }
  const std::byte* const end = push.values + push.count * phub::size_of(type);
  if (end != bytes.data() + bytes.size()) std::abort();
  return 0;
}

#include "common/protocol/sparse_push.h"

#include <bit>
#include <cstring>

namespace phub::wire {

static_assert(std::endian::native == std::endian::little, "numbers are used where they lie");

namespace {

SparsePush behind_count(const std::byte* bytes, std::uint32_t count) {
  const std::byte* const indices = bytes + sizeof(count);
  return {count, reinterpret_cast<const std::uint32_t*>(indices),
          indices + count * sizeof(std::uint32_t)};
}

}  // namespace

SparsePush sparse_at(const std::byte* bytes) {
  std::uint32_t count = 0;
  std::memcpy(&count, bytes, sizeof(count));
  return behind_count(bytes, count);
}

ParsedPush parse_sparse(std::span<const std::byte> bytes, DataType type, std::uint32_t elements) {
  std::uint32_t count = 0;
  if (bytes.size() < sizeof(count)) return {SparseFault::kCount};
  std::memcpy(&count, bytes.data(), sizeof(count));
  if (bytes.size() != sparse_bytes(count, type)) return {SparseFault::kCount};
  // Who shares the memory may write another count meanwhile.
  const SparsePush push = behind_count(bytes.data(), count);
  // Indices that ascend are all in range if the last one is.
  bool ascends = true;
  for (std::uint32_t i = 1; i < count; ++i) ascends &= push.indices[i - 1] < push.indices[i];
  if (!ascends) return {SparseFault::kOrder};
  if (count > 0 && push.indices[count - 1] >= elements) return {SparseFault::kRange};
  return {SparseFault::kNone, push};
}

SparsePlace begin_sparse(std::byte* bytes, std::uint32_t count) {
  std::memcpy(bytes, &count, sizeof(count));
  std::byte* const indices = bytes + sizeof(count);
  return {reinterpret_cast<std::uint32_t*>(indices), indices + count * sizeof(std::uint32_t)};
}

}  // namespace phub::wire

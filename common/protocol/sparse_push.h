// A push of some of a chunk's elements, in a job whose encoding is sparse:
//
//   count    u32, little-endian
//   index    u32 [count], in the chunk, ascending
//   value    [count] of the job's wire type
//
// It is used only where it has fewer bytes than the chunk, and takes the chunk's place in a window.
// So the length, which every transport tells, tells it from a dense push. Elements that it leaves
// out are 0. A reply over tcp or verbs may look the same; those that it leaves out are as they
// were. Pure functions; any thread; no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/dtype.h"
#include "common/base/rule.h"

namespace phub::wire {

constexpr std::uint64_t sparse_bytes(std::uint64_t count, DataType type) {
  return sizeof(std::uint32_t) + count * (sizeof(std::uint32_t) + size_of(type));
}

// Whether a push of so many of a chunk's elements has fewer bytes than the chunk.
constexpr bool is_smaller_sparse(std::uint64_t count, std::uint64_t elements, DataType type) {
  return sparse_bytes(count, type) < elements * size_of(type);
}

// Whether an update from sparse pushes may leave a parameter as it was, so that a reply may be
// sparse. In 16 bits that is so under any rule.
constexpr bool may_reply_sparse(RuleKind rule, DataType type) {
  return has_parameters(rule) && (rule == RuleKind::kSgd || type != DataType::kFloat32);
}

struct SparsePush {
  std::uint32_t count = 0;
  const std::uint32_t* indices = nullptr;  // [count]
  const std::byte* values = nullptr;       // [count]
};

enum class SparseFault : std::uint8_t {
  kNone,
  kCount,  // is not what the length says
  kRange,  // an index is none of the chunk's
  kOrder,  // indices do not ascend, or one is there twice
};

struct ParsedPush {
  SparseFault fault = SparseFault::kNone;
  SparsePush push = {};  // in the bytes that were parsed
};

// Of a chunk of so many elements. REQUIRES: the bytes are aligned as a u32 is, and nobody else
// writes to them.
ParsedPush parse_sparse(std::span<const std::byte> bytes, DataType type, std::uint32_t elements);
// What was parsed before. REQUIRES: that had no fault.
SparsePush sparse_at(const std::byte* bytes);

// Where the parts of a push are written; sets the count.
struct SparsePlace {
  std::uint32_t* indices = nullptr;
  std::byte* values = nullptr;
};
// REQUIRES: room for sparse_bytes, aligned as a u32 is.
SparsePlace begin_sparse(std::byte* bytes, std::uint32_t count);

}  // namespace phub::wire

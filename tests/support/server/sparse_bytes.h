// Bytes of a sparse push or reply in fp32, and such that lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/protocol/sparse_push.h"

namespace phub::testing {

// The same value at each index.
inline std::vector<std::byte> sparse_bytes_of(const std::vector<std::uint32_t>& indices,
                                              float value = 0.0F) {
  std::vector<std::byte> bytes(wire::sparse_bytes(indices.size(), DataType::kFloat32));
  const auto to = wire::begin_sparse(bytes.data(), static_cast<std::uint32_t>(indices.size()));
  std::copy(indices.begin(), indices.end(), to.indices);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::memcpy(to.values + i * sizeof(float), &value, sizeof(float));
  }
  return bytes;
}

// `count`: what they say that they have.
inline std::vector<std::byte> with_count(std::vector<std::byte> bytes, std::uint32_t count) {
  std::memcpy(bytes.data(), &count, sizeof(count));
  return bytes;
}

}  // namespace phub::testing

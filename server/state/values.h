// How values of the rows are kept: SQLite has 64-bit signed integers and bytes.
//
// Pure functions, for the Store's files; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/tenants/secret.h"

namespace phub::server {

inline std::optional<Digest> digest_from(const std::vector<std::uint8_t>& bytes) {
  Digest digest{};
  if (bytes.size() != digest.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

inline std::uint64_t whole(std::int64_t value) { return static_cast<std::uint64_t>(value); }
inline std::int64_t stored(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace phub::server

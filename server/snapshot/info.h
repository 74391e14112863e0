// What a snapshot's file says of itself, for lists. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace phub::server {

struct SnapshotInfo {
  std::string file;  // below the folder: what `read` takes
  std::string tenant;
  std::optional<std::uint32_t> tenant_id = {};  // whose folder it is in; none: administrators'
  std::string job;
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
  std::string created;  // UTC
  std::string sha256;
};

}  // namespace phub::server

// What somebody who reads over HTTP may see.
//
// A plain value; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace phub::server {

struct Reader {
  std::string tenant = {};      // whose jobs; empty: everybody's
  std::uint32_t tenant_id = 0;  // of that tenant
  bool sees_audit = false;      // the audit log, which is for administrators

  auto operator<=>(const Reader&) const = default;  // NOLINT(modernize-use-nullptr): tidy's error
};

}  // namespace phub::server

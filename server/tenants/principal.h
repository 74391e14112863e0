// Who calls, and what that lets them do.
//
// Plain values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/tenants/tenant.h"

namespace phub::server {

enum class Role : std::uint8_t {
  kAdmin,     // everything
  kTenant,    // its own jobs
  kObserver,  // sees everything, changes nothing
  kWorker,    // joins jobs; only certificates have this role
  kRack,      // another rack's server, joins jobs as that; only certificates have this role
};

enum class Right : std::uint8_t {
  kRead,        // jobs that it may see, and the server
  kChangeJobs,  // create and close
  kJoin,
  kJoinAsRack,  // for whatever tenant
  kAdminister,  // tenants, tokens, drain, audit
};

struct Principal {
  Role role = Role::kAdmin;
  std::string tenant = {};       // of role kTenant
  std::uint32_t tenant_id = 0;   // of role kTenant
  std::string name = "anybody";  // for the audit log: "token 3 (ci)", "certificate alice"
};

std::string_view name_of(Role role);
std::optional<Role> parse_role(std::string_view word);  // admin, tenant, observer, worker, rack

bool has_right(Role role, Right right);

// Errors: kPermissionDenied names the role and what it may do.
Status require(const Principal& principal, Right right);

// Whether a job of this tenant exists as far as the principal can tell.
bool can_see(const Principal& principal, std::string_view tenant);

// The same of what belongs to a tenant by id, whatever that one is called; none: to no tenant.
bool can_see(const Principal& principal, std::optional<std::uint32_t> tenant_id);

// Whose namespace is meant by a request that names `tenant`, or none.
std::string namespace_of(const Principal& principal, const std::string& tenant);

}  // namespace phub::server

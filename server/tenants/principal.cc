#include "server/tenants/principal.h"

#include <fmt/format.h>

#include <array>

namespace phub::server {
namespace {

struct RoleWords {
  std::string_view name;
  std::string_view reach;
};
// By Role.
constexpr std::array<RoleWords, 5> kRoles = {{
    {"admin", "does everything"},
    {"tenant", "creates, joins, reads and closes its own jobs"},
    {"observer", "reads"},
    {"worker", "joins jobs"},
    {"rack", "joins jobs as another rack's server"},
}};

const RoleWords& words_of(Role role) { return kRoles.at(static_cast<std::size_t>(role)); }

}  // namespace

std::string_view name_of(Role role) { return words_of(role).name; }

std::optional<Role> parse_role(std::string_view word) {
  for (const Role role :
       {Role::kAdmin, Role::kTenant, Role::kObserver, Role::kWorker, Role::kRack}) {
    if (name_of(role) == word) return role;
  }
  return std::nullopt;
}

bool has_right(Role role, Right right) {
  switch (role) {
    case Role::kAdmin:
      return true;
    case Role::kTenant:
      return right != Right::kAdminister && right != Right::kJoinAsRack;
    case Role::kObserver:
      return right == Right::kRead;
    case Role::kWorker:
      return right == Right::kJoin;
    case Role::kRack:
      return right == Right::kJoinAsRack;
  }
  return false;
}

Status require(const Principal& principal, Right right) {
  if (has_right(principal.role, right)) return {};
  return {Code::kPermissionDenied,
          fmt::format("{} has the role {}, which only {}; use other credentials (--credentials)",
                      principal.name, name_of(principal.role), words_of(principal.role).reach)};
}

bool can_see(const Principal& principal, std::string_view tenant) {
  switch (principal.role) {
    case Role::kTenant:
      return principal.tenant == tenant;
    case Role::kWorker:
    case Role::kRack:
      return false;
    default:
      return true;
  }
}

bool can_see(const Principal& principal, std::optional<std::uint32_t> tenant_id) {
  if (principal.role == Role::kTenant) return tenant_id == principal.tenant_id;
  return principal.role != Role::kWorker && principal.role != Role::kRack;
}

std::string namespace_of(const Principal& principal, const std::string& tenant) {
  if (!tenant.empty()) return tenant;
  return principal.role == Role::kTenant ? principal.tenant : std::string(kDefaultTenant);
}

}  // namespace phub::server

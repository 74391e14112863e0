#include "server/tenants/principal.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace phub::server {
namespace {

constexpr std::array kRoles = {
    std::pair(Role::kAdmin, std::string_view("admin")),
    std::pair(Role::kTenant, std::string_view("tenant")),
    std::pair(Role::kObserver, std::string_view("observer")),
    std::pair(Role::kWorker, std::string_view("worker")),
};

std::string_view reach_of(Role role) {
  switch (role) {
    case Role::kTenant:
      return "creates, joins, reads and closes its own jobs";
    case Role::kObserver:
      return "reads";
    case Role::kWorker:
      return "joins jobs";
    default:
      return "does everything";
  }
}

}  // namespace

std::string_view name_of(Role role) {
  for (const auto& [value, word] : kRoles) {
    if (value == role) return word;
  }
  return "?";
}

std::optional<Role> parse_role(std::string_view word) {
  for (const auto& [value, name] : kRoles) {
    if (name == word) return value;
  }
  return std::nullopt;
}

bool has_right(Role role, Right right) {
  switch (role) {
    case Role::kAdmin:
      return true;
    case Role::kTenant:
      return right != Right::kAdminister;
    case Role::kObserver:
      return right == Right::kRead;
    case Role::kWorker:
      return right == Right::kJoin;
  }
  return false;
}

Status require(const Principal& principal, Right right) {
  if (has_right(principal.role, right)) return {};
  return {Code::kPermissionDenied,
          fmt::format("{} has the role {}, which only {}; use other credentials (--credentials)",
                      principal.name, name_of(principal.role), reach_of(principal.role))};
}

bool can_see(const Principal& principal, std::string_view tenant) {
  switch (principal.role) {
    case Role::kTenant:
      return principal.tenant == tenant;
    case Role::kWorker:
      return false;
    default:
      return true;
  }
}

bool can_see(const Principal& principal, std::optional<std::uint32_t> tenant_id) {
  if (principal.role == Role::kTenant) return tenant_id == principal.tenant_id;
  return principal.role != Role::kWorker;
}

std::string namespace_of(const Principal& principal, const std::string& tenant) {
  if (!tenant.empty()) return tenant;
  return principal.role == Role::kTenant ? principal.tenant : std::string(kDefaultTenant);
}

}  // namespace phub::server

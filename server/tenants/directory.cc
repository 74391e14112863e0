#include "server/tenants/directory.h"

#include <fmt/format.h>

#include <chrono>

namespace phub::server {
namespace {

std::int64_t unix_seconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

Status unknown(const std::string& name) {
  return {Code::kNotFound, fmt::format("tenant \"{}\" is not known here; `phubctl tenant list` "
                                       "shows all, `phubctl tenant create {}` makes it",
                                       name, name)};
}

}  // namespace

TenantDirectory::TenantDirectory() {
  tenants_[std::string(kDefaultTenant)] = {.created_unix_s = unix_seconds()};
}

Result<Tenant> TenantDirectory::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return unknown(name);
  return found->second;
}

std::vector<Tenant> TenantDirectory::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Tenant> tenants;
  for (const auto& [name, tenant] : tenants_) tenants.push_back(tenant);
  return tenants;
}

Result<Tenant> TenantDirectory::create(const std::string& name, const Quotas& quotas) {
  PHUB_RETURN_IF_ERROR(validate_tenant_name("name", name));
  PHUB_RETURN_IF_ERROR(validate(quotas));
  const std::lock_guard lock(mutex_);
  if (tenants_.count(name) != 0) {
    return Status(Code::kAlreadyExists,
                  fmt::format("tenant \"{}\" exists; `phubctl tenant set` changes it", name));
  }
  const Tenant tenant{
      .id = next_id_++, .name = name, .quotas = quotas, .created_unix_s = unix_seconds()};
  tenants_[name] = tenant;
  return tenant;
}

Result<Tenant> TenantDirectory::set(const std::string& name, const Quotas& quotas) {
  PHUB_RETURN_IF_ERROR(validate(quotas));
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return unknown(name);
  found->second.quotas = quotas;
  return found->second;
}

Status TenantDirectory::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return unknown(name);
  if (found->second.id == 0) {
    return {Code::kFailedPrecondition, "the default tenant cannot be deleted"};
  }
  tenants_.erase(found);
  return {};
}

}  // namespace phub::server

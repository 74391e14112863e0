#include "server/access/directory.h"

#include <fmt/format.h>

#include <ctime>

namespace phub::server {

Status unknown_tenant(const std::string& name) {
  return {Code::kNotFound, fmt::format("tenant \"{}\" is not known here; `phubctl tenant list` "
                                       "shows all, `phubctl tenant create {}` makes it",
                                       name, name)};
}

TenantDirectory::TenantDirectory(Store& store) : store_(store) {
  tenants_[std::string(kDefaultTenant)] = {.created_unix_s = std::time(nullptr)};
}

Status TenantDirectory::load() {
  PHUB_ASSIGN_OR_RETURN(const std::vector<Tenant> stored, store_.tenants());
  const std::lock_guard lock(mutex_);
  for (const Tenant& tenant : stored) tenants_[tenant.name] = tenant;
  return {};
}

Result<Tenant> TenantDirectory::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return unknown_tenant(name);
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
  const std::lock_guard change(change_mutex_);
  if (find(name)) {
    return Status(Code::kAlreadyExists,
                  fmt::format("tenant \"{}\" exists; `phubctl tenant set` changes it", name));
  }
  Tenant tenant{.name = name, .quotas = quotas, .created_unix_s = std::time(nullptr)};
  PHUB_ASSIGN_OR_RETURN(tenant.id, store_.add_tenant(tenant));
  const std::lock_guard lock(mutex_);
  tenants_[name] = tenant;
  return tenant;
}

Result<Tenant> TenantDirectory::set(const std::string& name, const Quotas& quotas) {
  PHUB_RETURN_IF_ERROR(validate(quotas));
  const std::lock_guard change(change_mutex_);
  PHUB_ASSIGN_OR_RETURN(Tenant tenant, find(name));
  PHUB_RETURN_IF_ERROR(store_.set_quotas(tenant.id, quotas));
  tenant.quotas = quotas;
  const std::lock_guard lock(mutex_);
  tenants_[name] = tenant;
  return tenant;
}

Result<Tenant> TenantDirectory::share(const std::string& name, const std::string& shared_id) {
  if (!shared_id.empty()) PHUB_RETURN_IF_ERROR(validate_tenant_name("shared_id", shared_id));
  const std::lock_guard change(change_mutex_);
  PHUB_ASSIGN_OR_RETURN(Tenant tenant, find(name));
  if (tenant.id == 0) {
    return Status(Code::kFailedPrecondition,
                  "shared_id: the default tenant is the same in all racks; leave it out");
  }
  PHUB_RETURN_IF_ERROR(store_.share_tenant(tenant.id, shared_id));
  tenant.shared_id = shared_id;
  const std::lock_guard lock(mutex_);
  tenants_[name] = tenant;
  return tenant;
}

Status TenantDirectory::remove(const std::string& name) {
  const std::lock_guard change(change_mutex_);
  PHUB_ASSIGN_OR_RETURN(const Tenant tenant, find(name));
  if (tenant.id == 0) {
    return {Code::kFailedPrecondition, "the default tenant cannot be deleted"};
  }
  PHUB_RETURN_IF_ERROR(store_.remove_tenant(tenant.id));
  const std::lock_guard lock(mutex_);
  tenants_.erase(name);
  return {};
}

}  // namespace phub::server

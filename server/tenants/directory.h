// The tenants of a server, by name. The default tenant is always there.
//
// Owned by the daemon; any control thread. One mutex, held for look-ups only; it never calls out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/tenants/tenant.h"

namespace phub::server {

class TenantDirectory {
 public:
  TenantDirectory();

  // Errors: kNotFound with the cure.
  Result<Tenant> find(const std::string& name) const;
  std::vector<Tenant> list() const;  // by name

  // Errors: kAlreadyExists; kInvalidArgument names the field.
  Result<Tenant> create(const std::string& name, const Quotas& quotas);
  Result<Tenant> set(const std::string& name, const Quotas& quotas);
  // Errors: kFailedPrecondition for the default tenant.
  Status remove(const std::string& name);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_;
  std::uint32_t next_id_ = 1;
};

}  // namespace phub::server

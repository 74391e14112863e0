// The tenants of a server, by name. The default tenant is always there.
//
// Owned by the daemon; any control thread. Look-ups never wait for the store: changes are written
// first, one at a time, and then seen.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/state/store.h"
#include "server/tenants/tenant.h"

namespace phub::server {

// What is said of a tenant that does not exist, or that the caller may not know of.
Status unknown_tenant(const std::string& name);

class TenantDirectory {
 public:
  explicit TenantDirectory(Store& store);  // which outlives it

  // What the store has. REQUIRES: before any other call.
  Status load();

  // Errors: kNotFound with the cure.
  Result<Tenant> find(const std::string& name) const;
  std::vector<Tenant> list() const;  // by name

  // Errors: kAlreadyExists; kInvalidArgument names the field.
  Result<Tenant> create(const std::string& name, const Quotas& quotas);
  Result<Tenant> set(const std::string& name, const Quotas& quotas);
  // Tenant::shared_id. Errors: those, and kFailedPrecondition for the default tenant.
  Result<Tenant> share(const std::string& name, const std::string& shared_id);
  // Its tokens and saved jobs go from the store too. Errors: kFailedPrecondition for the default.
  Status remove(const std::string& name);

 private:
  Store& store_;
  std::mutex change_mutex_;   // one change at a time; taken before mutex_
  mutable std::mutex mutex_;  // tenants_
  std::map<std::string, Tenant> tenants_;
};

}  // namespace phub::server

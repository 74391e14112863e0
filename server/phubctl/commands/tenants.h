// The commands about tenants, their tokens, and the audit log.
//
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "server/phubctl/commands/client.h"

namespace phub::phubctl {

struct TenantOptions {
  std::string name;
  std::optional<std::uint64_t> memory_mib, disk_mib;
  std::optional<std::uint32_t> connections, jobs, weight;
  bool close_jobs = false;
};

struct TokenOptions {
  std::string tenant;
  std::string role = "tenant";
  std::string label;
  double lifetime_hours = 0.0;  // 0: for ever
  std::string save;             // a file to write the token to, instead of printing it
  std::uint64_t id = 0;         // revoke
};

// What --lifetime-hours means to the server. Errors: kInvalidArgument, also for what is no number.
Result<std::uint64_t> lifetime_seconds(double hours);

Status create_tenant(const Session& session, const TenantOptions& options);
Status list_tenants(const Session& session);
Status inspect_tenant(const Session& session, const std::string& name);
Status set_tenant(const Session& session, const TenantOptions& options);
Status delete_tenant(const Session& session, const TenantOptions& options);

Status create_token(const Session& session, const TokenOptions& options);
Status list_tokens(const Session& session, const std::string& tenant);
Status revoke_token(const Session& session, std::uint64_t id);

Status print_audit(const Session& session, std::uint32_t count);

}  // namespace phub::phubctl

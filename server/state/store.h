// What a server knows that must survive it: tenants, tokens (hashes only), jobs of administrators,
// ids that were given out, and the audit log. One SQLite file, state.sqlite, in state_folder.
//
// Owned by the daemon; any control thread: one mutex, held while SQLite writes and syncs. Nothing
// of the data path comes here.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/state/database.h"
#include "server/tenants/principal.h"
#include "server/tenants/secret.h"
#include "server/tenants/tenant.h"

namespace phub::server {

struct Token {
  std::uint64_t id = 0;
  Role role = Role::kTenant;
  std::string tenant = {};  // of role kTenant
  std::string label = {};   // what people call it
  Digest hash = {};
  std::int64_t created_unix_s = 0;
  std::int64_t expires_unix_s = 0;  // 0: never
  bool is_revoked = false;
};

struct StoredJob {
  std::uint64_t id = 0;
  std::uint32_t epoch = 1;
  std::string tenant;
  std::string spec;  // as the caller writes it
  std::optional<Digest> nonce_hash;
  std::string snapshot = {};  // that it starts from; empty: none
};

struct AuditRecord {
  std::int64_t unix_ms = 0;
  std::string principal;
  std::string action;
  std::string object;
  std::string outcome;  // "done", or why not
};

class Store {
 public:
  // `folder` empty: in memory, gone with the process. It is made if it is not there.
  // Errors: those of Database::open.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);

  Result<std::vector<Tenant>> tenants();
  Result<std::uint32_t> add_tenant(const Tenant& tenant);  // its id
  Status set_quotas(std::uint32_t id, const Quotas& quotas);
  Status remove_tenant(const Tenant& tenant);  // and its tokens and jobs

  Result<std::vector<Token>> tokens();
  Result<std::uint64_t> add_token(const Token& token);  // its id
  Status revoke_token(std::uint64_t id);

  // Each job's epoch is one more than at the last call.
  Result<std::vector<StoredJob>> take_jobs();
  Status add_job(const StoredJob& job);
  Status remove_job(std::uint64_t id);
  Result<std::uint64_t> reserve_job_ids(std::uint64_t count);

  Status add_audit(const AuditRecord& record);
  Result<std::vector<AuditRecord>> last_audits(std::uint32_t count);  // oldest first

  bool is_in_memory() const { return is_in_memory_; }

 private:
  Store(std::unique_ptr<Database> database, bool is_in_memory)
      : database_(std::move(database)), is_in_memory_(is_in_memory) {}

  std::mutex mutex_;
  const std::unique_ptr<Database> database_;
  const bool is_in_memory_;
};

}  // namespace phub::server

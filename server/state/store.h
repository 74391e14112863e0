// What a server knows that must survive it: tenants, tokens (hashes only), jobs of administrators,
// ids that were given out, and the audit log. One SQLite file, state.sqlite, in state_folder.
//
// Each change is one transaction, on the disk when the function returns OK. Rows belong to tenants
// by id, so nothing of a deleted tenant comes to one that is made under its name later. What lets
// the server start, or takes something away, may use the reserve of a full disk; what adds is
// refused then.
//
// Owned by the daemon; any control thread: one mutex, held while SQLite writes and syncs. Nothing
// of the data path comes here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/state/database.h"
#include "server/state/reserve.h"
#include "server/state/stored_audits.h"
#include "server/tenants/principal.h"
#include "server/tenants/secret.h"
#include "server/tenants/tenant.h"

namespace phub::server {

struct Token {
  std::uint64_t id = 0;
  Role role = Role::kTenant;
  std::uint32_t tenant_id = 0;  // of role kTenant
  std::string tenant = {};      // of role kTenant; read, not written
  std::string label = {};       // what people call it
  Digest hash = {};
  std::int64_t created_unix_s = 0;
  std::int64_t expires_unix_s = 0;  // 0: never
  bool is_revoked = false;
};

struct StoredJob {
  std::uint64_t id = 0;
  std::uint32_t epoch = 1;
  std::uint32_t tenant_id = 0;
  std::string tenant = {};  // read, not written
  std::string spec = {};    // as the caller writes it
  std::optional<Digest> nonce_hash = {};
  std::string snapshot = {};  // that it starts from; empty: none
};

class Store {
 public:
  // `folder` empty: in memory, gone with the process. It is made if it is not there.
  // Errors: those of Database::open.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);

  Result<std::vector<Tenant>> tenants();
  Result<std::uint32_t> add_tenant(const Tenant& tenant);  // its id
  Status set_quotas(std::uint32_t id, const Quotas& quotas);
  Status share_tenant(std::uint32_t id, const std::string& shared_id);  // empty: with nobody
  Status remove_tenant(std::uint32_t id);                               // and its tokens and jobs

  Result<std::vector<Token>> tokens();
  // Errors: kFailedPrecondition if its tenant is not there any more.
  Status add_token(const Token& token);
  // That a token may be added with.
  Result<std::uint64_t> next_token_id() { return reserve_ids(Need::kUrgent, "next_token_id", 1); }
  Status revoke_token(std::uint64_t id);

  // Each job's epoch is one more than at the last call.
  Result<std::vector<StoredJob>> take_jobs();
  // Takes the place of what it has of a job of that id. Errors: as add_token.
  Status add_job(const StoredJob& job);
  Status remove_job(std::uint64_t id);
  Result<std::uint64_t> reserve_job_ids(std::uint64_t count) {
    return reserve_ids(Need::kOrdinary, "next_job_id", count);
  }

  Status add_audit(const AuditRecord& record);
  // The newest `count` of both kinds, oldest first.
  Result<std::vector<AuditRecord>> last_audits(std::uint32_t count);

  bool is_in_memory() const { return folder_.empty(); }
  // For files beside the database. False: there is no reserve.
  bool give_back_reserve();

 private:
  enum class Need : std::uint8_t { kOrdinary, kUrgent };  // urgent: may use the reserve
  Store(std::unique_ptr<Database> database, std::string folder);
  Status change(Need need, const std::function<Status()>& statements);
  // REQUIRES: the mutex is held, as it is in the statements of a change.
  Status change_locked(Need need, const std::function<Status()>& statements);
  // In a transaction: the counter's value, which it then exceeds by `count`.
  Result<std::uint64_t> take_ids(std::string_view counter, std::uint64_t count);
  // The same in a transaction of its own.
  Result<std::uint64_t> reserve_ids(Need need, std::string_view counter, std::uint64_t count);

  std::mutex mutex_;
  const std::unique_ptr<Database> database_;
  const std::string folder_;
  Reserve reserve_;
  StoredAudits audits_;
};

}  // namespace phub::server

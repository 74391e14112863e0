// Opening, tenants, tokens, and the audit log.
#include "server/state/store.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/base/log_value.h"
#include "server/process/private_file.h"
#include "server/state/schema.h"

namespace phub::server {
namespace {

constexpr std::int64_t kAuditsInMemoryMax = 1000;
constexpr std::int64_t kAuditsMax = 100'000;  // of each kind

constexpr Schema kSchema = {.migrations = kMigrations, .checks = kChecks};

std::string beside(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string() : folder + "/" + std::string(name);
}

Status make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno == EEXIST) {
    warn_of_others("state_is_open", folder);
    return {};
  }
  return errno_status("state_folder: cannot make " + folder, Code::kPermissionDenied);
}

// Removes what a killed process left. REQUIRES: the database is open, so no other process works
// here.
void remove_unfinished_files(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  for (const std::string_view name :
       {"admin.token.tmp", "state.sqlite.new", "state.sqlite.new-journal"}) {
    std::filesystem::remove(beside(folder, name), error);
  }
}

}  // namespace

Store::Store(std::unique_ptr<Database> database, std::string folder)
    : database_(std::move(database)),
      folder_(std::move(folder)),
      reserve_(beside(folder_, "reserve")),
      audits_(*database_, is_in_memory() ? kAuditsInMemoryMax : kAuditsMax) {}

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
  if (!folder.empty()) PHUB_RETURN_IF_ERROR(make_folder(folder));
  const std::string path = beside(folder, "state.sqlite");
  auto database = Database::open(path, kSchema);
  if (!database && database.error().code() == Code::kResourceExhausted &&
      Reserve(beside(folder, "reserve")).give_back()) {
    database = Database::open(path, kSchema);
  }
  if (!database) return database.error();
  std::unique_ptr<Store> store(new Store(std::move(*database), folder));
  PHUB_RETURN_IF_ERROR(store->audits_.count());
  remove_unfinished_files(folder);
  const Status kept = store->reserve_.fill();
  if (!kept.ok()) spdlog::warn("event=no_reserve reason={}", log_value(kept.message()));
  return store;
}

bool Store::give_back_reserve() {
  const std::lock_guard lock(mutex_);
  return reserve_.give_back();
}

Status Store::add_audit(const AuditRecord& record) {
  const std::lock_guard lock(mutex_);
  return audits_.add(record, [this](const std::function<Status()>& statements) {
    return change_locked(Need::kOrdinary, statements);
  });
}

Result<std::vector<AuditRecord>> Store::last_audits(std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  return audits_.last(count);
}

Status Store::change(Need need, const std::function<Status()>& statements) {
  const std::lock_guard lock(mutex_);
  return change_locked(need, statements);
}

Status Store::change_locked(Need need, const std::function<Status()>& statements) {
  Status done = database_->transact(statements);
  const bool may_retry = need == Need::kUrgent && done.code() == Code::kResourceExhausted;
  if (may_retry && reserve_.give_back()) done = database_->transact(statements);
  if (done.ok()) static_cast<void>(reserve_.fill());  // without room: at a later change
  return done;
}

Result<std::uint64_t> Store::take_ids(std::string_view counter, std::uint64_t count) {
  Statement query =
      database_->prepare("UPDATE counters SET value = value + ? WHERE name = ? RETURNING value");
  query.bind(count, counter);
  PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
  if (!has_row) return Status(Code::kDataLoss, "state.sqlite lacks a counter");
  const std::uint64_t end = query.integer<std::uint64_t>(0);
  PHUB_RETURN_IF_ERROR(query.run());
  return end - count;
}

Result<std::uint64_t> Store::reserve_ids(Need need, std::string_view counter, std::uint64_t count) {
  std::uint64_t first = 0;
  const Status taken = change(need, [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(first, take_ids(counter, count));
    return {};
  });
  if (!taken.ok()) return taken;
  return first;
}

Result<std::vector<Tenant>> Store::tenants() {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT id, name, memory_mib, connections, jobs, weight, disk_mib, created, shared_id "
      "FROM tenants LEFT JOIN shared_tenants ON tenant = id");
  return query.rows<Tenant>([&] {
    return Tenant{.id = query.integer<std::uint32_t>(0),
                  .name = query.text(1),
                  .quotas = {.memory_mib = query.integer<std::uint64_t>(2),
                             .connections = query.integer<std::uint32_t>(3),
                             .jobs = query.integer<std::uint32_t>(4),
                             .weight = query.integer<std::uint32_t>(5),
                             .disk_mib = query.integer<std::uint64_t>(6)},
                  .created_unix_s = query.integer(7),
                  .shared_id = query.text(8)};
  });
}

Status Store::share_tenant(std::uint32_t id, const std::string& shared_id) {
  return change(Need::kOrdinary, [&]() -> Status {
    if (shared_id.empty()) {
      return database_->prepare("DELETE FROM shared_tenants WHERE tenant = ?").bind(id).run();
    }
    return database_
        ->prepare("INSERT OR REPLACE INTO shared_tenants (tenant, shared_id) VALUES (?, ?)")
        .bind(id, shared_id)
        .run();
  });
}

Result<std::uint32_t> Store::add_tenant(const Tenant& tenant) {
  const Quotas& quotas = tenant.quotas;
  std::uint64_t id = 0;
  const Status added = change(Need::kOrdinary, [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(id, take_ids("next_tenant_id", 1));
    return database_
        ->prepare(
            "INSERT INTO tenants (id, name, memory_mib, connections, jobs, weight, disk_mib, "
            "created) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(id, tenant.name, quotas.memory_mib, quotas.connections, quotas.jobs, quotas.weight,
              quotas.disk_mib, tenant.created_unix_s)
        .run();
  });
  if (!added.ok()) return added;
  return static_cast<std::uint32_t>(id);
}

Status Store::set_quotas(std::uint32_t id, const Quotas& quotas) {
  return change(Need::kOrdinary, [&] {
    return database_
        ->prepare(
            "UPDATE tenants SET memory_mib = ?, connections = ?, jobs = ?, weight = ?, "
            "disk_mib = ? WHERE id = ?")
        .bind(quotas.memory_mib, quotas.connections, quotas.jobs, quotas.weight, quotas.disk_mib,
              id)
        .run();
  });
}

Status Store::remove_tenant(std::uint32_t id) {
  return change(Need::kUrgent, [&]() -> Status {
    for (const std::string_view sql :
         {"DELETE FROM tokens WHERE tenant = ?", "DELETE FROM jobs WHERE tenant = ?",
          "DELETE FROM shared_tenants WHERE tenant = ?", "DELETE FROM tenants WHERE id = ?"}) {
      PHUB_RETURN_IF_ERROR(database_->prepare(sql).bind(id).run());
    }
    return {};
  });
}

Result<std::vector<Token>> Store::tokens() {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT k.id, k.role, k.tenant, t.name, k.label, k.hash, k.created, k.expires, k.revoked "
      "FROM tokens k LEFT JOIN tenants t ON t.id = k.tenant");
  return query.rows<Token>([&]() -> Result<Token> {
    const auto role = parse_role(query.text(1));
    const auto hash = query.digest(5);
    if (!role || !hash) return Status(Code::kDataLoss, "state.sqlite has a token of no known role");
    return Token{.id = query.integer<std::uint64_t>(0),
                 .role = *role,
                 .tenant_id = query.integer<std::uint32_t>(2),
                 .tenant = query.text(3),
                 .label = query.text(4),
                 .hash = *hash,
                 .created_unix_s = query.integer(6),
                 .expires_unix_s = query.integer(7),
                 .is_revoked = query.integer(8) != 0};
  });
}

Status Store::add_token(const Token& token) {
  return change(Need::kOrdinary, [&] {
    const auto tenant = token.role == Role::kTenant ? std::optional(token.tenant_id) : std::nullopt;
    return database_
        ->prepare(
            "INSERT INTO tokens (id, role, tenant, label, hash, created, expires, revoked) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 0)")
        .bind(token.id, name_of(token.role), tenant, token.label, token.hash, token.created_unix_s,
              token.expires_unix_s)
        .run();
  });
}

Status Store::revoke_token(std::uint64_t id) {
  return change(Need::kUrgent, [&] {
    return database_->prepare("UPDATE tokens SET revoked = 1 WHERE id = ?").bind(id).run();
  });
}

}  // namespace phub::server

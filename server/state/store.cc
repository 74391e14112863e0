// Opening, tenants and tokens.
#include "server/state/store.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "common/base/log_value.h"
#include "server/state/schema.h"
#include "server/state/values.h"

namespace phub::server {
namespace {

constexpr Schema kSchema = {.migrations = kMigrations, .checks = kChecks};

std::string beside(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string() : folder + "/" + std::string(name);
}

}  // namespace

Store::Store(std::unique_ptr<Database> database, std::string folder)
    : database_(std::move(database)),
      folder_(std::move(folder)),
      reserve_(beside(folder_, "reserve")) {}

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
  PHUB_RETURN_IF_ERROR(store->count_audits());
  store->remove_unfinished_files();
  const Status kept = store->reserve_.fill();
  if (!kept.ok()) spdlog::warn("event=no_reserve reason={}", log_value(kept.message()));
  return store;
}

Status Store::make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return errno_status("state_folder: cannot make " + folder, Code::kPermissionDenied);
}

// Of a process that was killed. REQUIRES: the database is open, so no other process works here.
void Store::remove_unfinished_files() const {
  if (is_in_memory()) return;
  std::error_code error;
  for (const std::string_view name :
       {"admin.token.tmp", "state.sqlite.new", "state.sqlite.new-journal"}) {
    std::filesystem::remove(beside(folder_, name), error);
  }
}

bool Store::give_back_reserve() {
  const std::lock_guard lock(mutex_);
  return reserve_.give_back();
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
  query.bind(1, stored(count)).bind(2, counter);
  PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
  if (!has_row) return Status(Code::kDataLoss, "state.sqlite lacks a counter");
  const std::uint64_t end = whole(query.integer(0));
  PHUB_RETURN_IF_ERROR(query.run());
  return end - count;
}

Result<std::vector<Tenant>> Store::tenants() {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT id, name, memory_mib, connections, jobs, weight, disk_mib, created FROM tenants");
  std::vector<Tenant> tenants;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return tenants;
    tenants.push_back({.id = static_cast<std::uint32_t>(query.integer(0)),
                       .name = query.text(1),
                       .quotas = {.memory_mib = whole(query.integer(2)),
                                  .connections = static_cast<std::uint32_t>(query.integer(3)),
                                  .jobs = static_cast<std::uint32_t>(query.integer(4)),
                                  .weight = static_cast<std::uint32_t>(query.integer(5)),
                                  .disk_mib = whole(query.integer(6))},
                       .created_unix_s = query.integer(7)});
  }
}

Result<std::uint32_t> Store::add_tenant(const Tenant& tenant) {
  std::uint64_t id = 0;
  const Status added = change(Need::kOrdinary, [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(id, take_ids("next_tenant_id", 1));
    return database_
        ->prepare(
            "INSERT INTO tenants (id, name, memory_mib, connections, jobs, weight, disk_mib, "
            "created) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(1, stored(id))
        .bind(2, tenant.name)
        .bind(3, stored(tenant.quotas.memory_mib))
        .bind(4, std::int64_t{tenant.quotas.connections})
        .bind(5, std::int64_t{tenant.quotas.jobs})
        .bind(6, std::int64_t{tenant.quotas.weight})
        .bind(7, stored(tenant.quotas.disk_mib))
        .bind(8, tenant.created_unix_s)
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
        .bind(1, stored(quotas.memory_mib))
        .bind(2, std::int64_t{quotas.connections})
        .bind(3, std::int64_t{quotas.jobs})
        .bind(4, std::int64_t{quotas.weight})
        .bind(5, stored(quotas.disk_mib))
        .bind(6, std::int64_t{id})
        .run();
  });
}

Status Store::remove_tenant(std::uint32_t id) {
  return change(Need::kUrgent, [&]() -> Status {
    for (const std::string_view sql :
         {"DELETE FROM tokens WHERE tenant = ?", "DELETE FROM jobs WHERE tenant = ?",
          "DELETE FROM tenants WHERE id = ?"}) {
      PHUB_RETURN_IF_ERROR(database_->prepare(sql).bind(1, std::int64_t{id}).run());
    }
    return {};
  });
}

Result<std::vector<Token>> Store::tokens() {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT k.id, k.role, k.tenant, t.name, k.label, k.hash, k.created, k.expires, k.revoked "
      "FROM tokens k LEFT JOIN tenants t ON t.id = k.tenant");
  std::vector<Token> tokens;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return tokens;
    const auto role = parse_role(query.text(1));
    const auto hash = digest_from(query.bytes(5));
    if (!role || !hash) return Status(Code::kDataLoss, "state.sqlite has a token of no known role");
    tokens.push_back({.id = whole(query.integer(0)),
                      .role = *role,
                      .tenant_id = static_cast<std::uint32_t>(query.integer(2)),
                      .tenant = query.text(3),
                      .label = query.text(4),
                      .hash = *hash,
                      .created_unix_s = query.integer(6),
                      .expires_unix_s = query.integer(7),
                      .is_revoked = query.integer(8) != 0});
  }
}

Result<std::uint64_t> Store::next_token_id() {
  std::uint64_t id = 0;
  const Status taken = change(Need::kUrgent, [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(id, take_ids("next_token_id", 1));
    return {};
  });
  if (!taken.ok()) return taken;
  return id;
}

Status Store::add_token(const Token& token) {
  return change(Need::kOrdinary, [&] {
    Statement insert = database_->prepare(
        "INSERT INTO tokens (id, role, tenant, label, hash, created, expires, revoked) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 0)");
    insert.bind(1, stored(token.id)).bind(2, name_of(token.role)).bind_null(3);
    if (token.role == Role::kTenant) insert.bind(3, std::int64_t{token.tenant_id});
    return insert.bind(4, token.label)
        .bind(5, token.hash)
        .bind(6, token.created_unix_s)
        .bind(7, token.expires_unix_s)
        .run();
  });
}

Status Store::revoke_token(std::uint64_t id) {
  return change(Need::kUrgent, [&] {
    return database_->prepare("UPDATE tokens SET revoked = 1 WHERE id = ?")
        .bind(1, stored(id))
        .run();
  });
}

}  // namespace phub::server

#include "server/state/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "server/state/schema.h"

namespace phub::server {
namespace {

constexpr std::int64_t kAuditsInMemoryMax = 1000;
constexpr std::int64_t kAuditsMax = 100'000;

std::optional<Digest> digest_from(const std::vector<std::uint8_t>& bytes) {
  Digest digest{};
  if (bytes.size() != digest.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::uint64_t whole(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t stored(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
  std::string path;
  if (!folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return errno_status("state_folder: cannot make " + folder, Code::kPermissionDenied);
    }
    path = folder + "/state.sqlite";
  }
  PHUB_ASSIGN_OR_RETURN(auto database, Database::open(path, kMigrations));
  return std::unique_ptr<Store>(new Store(std::move(database), folder.empty()));
}

Result<std::vector<Tenant>> Store::tenants() {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT id, name, memory_mib, connections, jobs, weight, created FROM tenants");
  std::vector<Tenant> tenants;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return tenants;
    tenants.push_back({.id = static_cast<std::uint32_t>(query.integer(0)),
                       .name = query.text(1),
                       .quotas = {.memory_mib = whole(query.integer(2)),
                                  .connections = static_cast<std::uint32_t>(query.integer(3)),
                                  .jobs = static_cast<std::uint32_t>(query.integer(4)),
                                  .weight = static_cast<std::uint32_t>(query.integer(5))},
                       .created_unix_s = query.integer(6)});
  }
}

Result<std::uint32_t> Store::add_tenant(const Tenant& tenant) {
  const std::lock_guard lock(mutex_);
  PHUB_RETURN_IF_ERROR(database_
                           ->prepare("INSERT INTO tenants (name, memory_mib, connections, jobs, "
                                     "weight, created) VALUES (?, ?, ?, ?, ?, ?)")
                           .bind(1, tenant.name)
                           .bind(2, stored(tenant.quotas.memory_mib))
                           .bind(3, std::int64_t{tenant.quotas.connections})
                           .bind(4, std::int64_t{tenant.quotas.jobs})
                           .bind(5, std::int64_t{tenant.quotas.weight})
                           .bind(6, tenant.created_unix_s)
                           .run());
  return static_cast<std::uint32_t>(database_->last_id());
}

Status Store::set_quotas(std::uint32_t id, const Quotas& quotas) {
  const std::lock_guard lock(mutex_);
  return database_
      ->prepare(
          "UPDATE tenants SET memory_mib = ?, connections = ?, jobs = ?, weight = ? "
          "WHERE id = ?")
      .bind(1, stored(quotas.memory_mib))
      .bind(2, std::int64_t{quotas.connections})
      .bind(3, std::int64_t{quotas.jobs})
      .bind(4, std::int64_t{quotas.weight})
      .bind(5, std::int64_t{id})
      .run();
}

Status Store::remove_tenant(const Tenant& tenant) {
  const std::lock_guard lock(mutex_);
  PHUB_RETURN_IF_ERROR(database_->execute("BEGIN"));
  const auto remove = [&]() -> Status {
    for (const std::string_view sql : {"DELETE FROM tenants WHERE name = ?",
                                       "DELETE FROM tokens WHERE tenant = ? AND role = 'tenant'",
                                       "DELETE FROM jobs WHERE tenant = ?"}) {
      PHUB_RETURN_IF_ERROR(database_->prepare(sql).bind(1, tenant.name).run());
    }
    return {};
  };
  const Status removed = remove();
  const Status ended = database_->execute(removed.ok() ? "COMMIT" : "ROLLBACK");
  return removed.ok() ? ended : removed;
}

Result<std::vector<Token>> Store::tokens() {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT id, role, tenant, label, hash, created, expires, revoked FROM tokens");
  std::vector<Token> tokens;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return tokens;
    const auto role = parse_role(query.text(1));
    const auto hash = digest_from(query.bytes(4));
    if (!role || !hash) continue;
    tokens.push_back({.id = whole(query.integer(0)),
                      .role = *role,
                      .tenant = query.text(2),
                      .label = query.text(3),
                      .hash = *hash,
                      .created_unix_s = query.integer(5),
                      .expires_unix_s = query.integer(6),
                      .is_revoked = query.integer(7) != 0});
  }
}

Result<std::uint64_t> Store::add_token(const Token& token) {
  const std::lock_guard lock(mutex_);
  PHUB_RETURN_IF_ERROR(database_
                           ->prepare("INSERT INTO tokens (role, tenant, label, hash, created, "
                                     "expires, revoked) VALUES (?, ?, ?, ?, ?, ?, 0)")
                           .bind(1, name_of(token.role))
                           .bind(2, token.tenant)
                           .bind(3, token.label)
                           .bind(4, token.hash)
                           .bind(5, token.created_unix_s)
                           .bind(6, token.expires_unix_s)
                           .run());
  return whole(database_->last_id());
}

Status Store::revoke_token(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  return database_->prepare("UPDATE tokens SET revoked = 1 WHERE id = ?").bind(1, stored(id)).run();
}

Result<std::vector<StoredJob>> Store::take_jobs() {
  const std::lock_guard lock(mutex_);
  PHUB_RETURN_IF_ERROR(database_->execute("UPDATE jobs SET epoch = epoch + 1"));
  Statement query =
      database_->prepare("SELECT id, epoch, tenant, spec, nonce_hash, snapshot FROM jobs");
  std::vector<StoredJob> jobs;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return jobs;
    const std::vector<std::uint8_t> spec = query.bytes(3);
    jobs.push_back({.id = whole(query.integer(0)),
                    .epoch = static_cast<std::uint32_t>(query.integer(1)),
                    .tenant = query.text(2),
                    .spec = {spec.begin(), spec.end()},
                    .nonce_hash = digest_from(query.bytes(4)),
                    .snapshot = query.text(5)});
  }
}

Status Store::add_job(const StoredJob& job) {
  const std::lock_guard lock(mutex_);
  Statement insert = database_->prepare("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?)");
  insert.bind(1, stored(job.id)).bind(2, std::int64_t{job.epoch}).bind(3, job.tenant);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(job.spec.data());
  insert.bind(4, std::span(bytes, job.spec.size()));
  if (job.nonce_hash) {
    insert.bind(5, *job.nonce_hash);
  } else {
    insert.bind_null(5);
  }
  insert.bind(6, job.snapshot);
  return insert.run();
}

Status Store::remove_job(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  return database_->prepare("DELETE FROM jobs WHERE id = ?").bind(1, stored(id)).run();
}

Result<std::uint64_t> Store::reserve_job_ids(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "UPDATE counters SET value = value + ? WHERE name = 'next_job_id' RETURNING value");
  query.bind(1, stored(count));
  PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
  if (!has_row) return Status(Code::kInternal, "state.sqlite: counters has no next_job_id");
  const std::uint64_t end = whole(query.integer(0));
  PHUB_RETURN_IF_ERROR(query.run());
  return end - count;
}

Status Store::add_audit(const AuditRecord& record) {
  const std::lock_guard lock(mutex_);
  PHUB_RETURN_IF_ERROR(database_
                           ->prepare("INSERT INTO audit (time_ms, principal, action, object, "
                                     "outcome) VALUES (?, ?, ?, ?, ?)")
                           .bind(1, record.unix_ms)
                           .bind(2, record.principal)
                           .bind(3, record.action)
                           .bind(4, record.object)
                           .bind(5, record.outcome)
                           .run());
  const std::int64_t kept = is_in_memory_ ? kAuditsInMemoryMax : kAuditsMax;
  return database_->prepare("DELETE FROM audit WHERE id <= ?")
      .bind(1, database_->last_id() - kept)
      .run();
}

Result<std::vector<AuditRecord>> Store::last_audits(std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT time_ms, principal, action, object, outcome FROM audit ORDER BY id DESC LIMIT ?");
  query.bind(1, std::int64_t{count});
  std::vector<AuditRecord> records;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) break;
    records.push_back({.unix_ms = query.integer(0),
                       .principal = query.text(1),
                       .action = query.text(2),
                       .object = query.text(3),
                       .outcome = query.text(4)});
  }
  std::reverse(records.begin(), records.end());
  return records;
}

}  // namespace phub::server

// Jobs, their ids, and the audit log.
#include <algorithm>
#include <optional>
#include <string>

#include "server/state/store.h"

namespace phub::server {
namespace {

constexpr std::int64_t kAuditsInMemoryMax = 1000;
constexpr std::int64_t kAuditsMax = 100'000;  // of each kind

}  // namespace

Result<std::vector<StoredJob>> Store::take_jobs() {
  PHUB_RETURN_IF_ERROR(change(
      Need::kUrgent, [&] { return database_->execute("UPDATE jobs SET epoch = epoch + 1"); }));
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT j.id, j.epoch, j.tenant, t.name, j.spec, j.nonce_hash, j.snapshot "
      "FROM jobs j JOIN tenants t ON t.id = j.tenant");
  return query.rows<StoredJob>([&] {
    return StoredJob{.id = query.integer<std::uint64_t>(0),
                     .epoch = query.integer<std::uint32_t>(1),
                     .tenant_id = query.integer<std::uint32_t>(2),
                     .tenant = query.text(3),
                     .spec = query.text(4),
                     .nonce_hash = query.digest(5),
                     .snapshot = query.text(6)};
  });
}

Status Store::add_job(const StoredJob& job) {
  return change(Need::kOrdinary, [&] {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(job.spec.data());
    return database_
        ->prepare(
            "INSERT INTO jobs (id, epoch, tenant, spec, nonce_hash, snapshot) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, "
            "tenant = excluded.tenant, spec = excluded.spec, nonce_hash = excluded.nonce_hash, "
            "snapshot = excluded.snapshot")
        .bind(job.id, job.epoch, job.tenant_id, std::span(bytes, job.spec.size()), job.nonce_hash,
              job.snapshot)
        .run();
  });
}

Status Store::remove_job(std::uint64_t id) {
  return change(Need::kUrgent,
                [&] { return database_->prepare("DELETE FROM jobs WHERE id = ?").bind(id).run(); });
}

Status Store::count_audits() {
  Statement newest = database_->prepare("SELECT coalesce(max(id), 0) FROM audit");
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool has_newest, newest.step());
  last_audit_ = newest.integer(0);
  Statement query = database_->prepare(
      "SELECT by_admin, principal, count(*) FROM audit GROUP BY by_admin, principal");
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return {};
    audits_[query.integer(0) != 0 ? 1 : 0].add(query.text(1), query.integer(2));
  }
}

Status Store::insert_audit(const AuditRecord& record) {
  return database_
      ->prepare(
          "INSERT INTO audit (id, time_ms, by_admin, principal, action, object, outcome) "
          "VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(last_audit_ + 1, record.unix_ms, record.by_admin, record.principal, record.action,
            record.object, record.outcome)
      .run();
}

// Whoever has most makes room with its oldest record, so a principal's acts push out others' only
// while it has fewer than they. Where nobody has two, the oldest of all goes. Returns whose it was.
Result<std::string> Store::remove_audit(bool by_admin) {
  const AuditShares& shares = audits_[by_admin ? 1 : 0];
  const bool has_two = shares.largest_count() > 1;
  Statement removal = database_->prepare(
      has_two ? "DELETE FROM audit WHERE id = (SELECT min(id) FROM audit WHERE by_admin = ? AND "
                "principal = ?) RETURNING principal"
              : "DELETE FROM audit WHERE id = (SELECT min(id) FROM audit WHERE by_admin = ?) "
                "RETURNING principal");
  has_two ? removal.bind(by_admin, shares.largest()) : removal.bind(by_admin);
  PHUB_ASSIGN_OR_RETURN(const bool has_row, removal.step());
  if (!has_row) return Status(Code::kDataLoss, "audit: the record that was to go is not there");
  std::string principal = removal.text(0);
  PHUB_RETURN_IF_ERROR(removal.run());
  return principal;
}

Status Store::add_audit(const AuditRecord& record) {
  const std::int64_t kept = is_in_memory() ? kAuditsInMemoryMax : kAuditsMax;
  const std::lock_guard lock(mutex_);
  AuditShares& shares = audits_[record.by_admin ? 1 : 0];
  shares.add(record.principal, 1);
  std::optional<std::string> from;
  const Status added = change_locked(Need::kOrdinary, [&]() -> Status {
    PHUB_RETURN_IF_ERROR(insert_audit(record));
    if (shares.total() <= kept) return {};
    PHUB_ASSIGN_OR_RETURN(from, remove_audit(record.by_admin));
    return {};
  });
  if (!added.ok()) {
    shares.add(record.principal, -1);
    return added;
  }
  ++last_audit_;
  if (from) shares.add(*from, -1);
  return {};
}

Result<std::vector<AuditRecord>> Store::last_audits(std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  Statement query = database_->prepare(
      "SELECT time_ms, principal, action, object, outcome, by_admin FROM audit "
      "ORDER BY id DESC LIMIT ?");
  query.bind(count);
  auto records = query.rows<AuditRecord>([&] {
    return AuditRecord{.unix_ms = query.integer(0),
                       .principal = query.text(1),
                       .action = query.text(2),
                       .object = query.text(3),
                       .outcome = query.text(4),
                       .by_admin = query.integer(5) != 0};
  });
  if (records) std::reverse(records->begin(), records->end());
  return records;
}

}  // namespace phub::server

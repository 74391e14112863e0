#include "server/state/stored_audits.h"

#include <algorithm>
#include <optional>

namespace phub::server {

Status StoredAudits::count() {
  Statement newest = database_.prepare("SELECT coalesce(max(id), 0) FROM audit");
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool has_newest, newest.step());
  last_id_ = newest.integer(0);
  Statement query = database_.prepare(
      "SELECT by_admin, principal, count(*) FROM audit GROUP BY by_admin, principal");
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool has_row, query.step());
    if (!has_row) return {};
    shares_[query.integer(0) != 0 ? 1 : 0].add(query.text(1), query.integer(2));
  }
}

Status StoredAudits::insert(const AuditRecord& record) {
  return database_
      .prepare(
          "INSERT INTO audit (id, time_ms, by_admin, principal, action, object, outcome) "
          "VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(last_id_ + 1, record.unix_ms, record.by_admin, record.principal, record.action,
            record.object, record.outcome)
      .run();
}

Result<std::string> StoredAudits::remove(bool by_admin) {
  const AuditShares& shares = shares_[by_admin ? 1 : 0];
  const bool has_two = shares.largest_count() > 1;
  Statement removal = database_.prepare(
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

Status StoredAudits::add(const AuditRecord& record, const Transact& transact) {
  AuditShares& shares = shares_[record.by_admin ? 1 : 0];
  shares.add(record.principal, 1);
  std::optional<std::string> from;
  const Status added = transact([&]() -> Status {
    PHUB_RETURN_IF_ERROR(insert(record));
    if (shares.total() <= records_max_) return {};
    PHUB_ASSIGN_OR_RETURN(from, remove(record.by_admin));
    return {};
  });
  if (!added.ok()) {
    shares.add(record.principal, -1);
    return added;
  }
  ++last_id_;
  if (from) shares.add(*from, -1);
  return {};
}

Result<std::vector<AuditRecord>> StoredAudits::last(std::uint32_t count) {
  Statement query = database_.prepare(
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

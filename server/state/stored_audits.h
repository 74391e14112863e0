// The audit log in the state's database: what it keeps, and which record makes room for the next.
//
// Administrators' acts are kept apart from the others, as many records of each kind. Whoever has
// most of a kind makes room with its oldest record, so a principal's acts push out others' only
// while it has fewer than they. Where nobody has two, the oldest of all goes.
//
// Owned by the Store, used under its mutex. The database outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "server/state/database.h"

namespace phub::server {

struct AuditRecord {
  std::int64_t unix_ms = 0;
  std::string principal;
  std::string action;
  std::string object;
  std::string outcome;    // "done", or why not
  bool by_admin = false;  // an administrator's act: those are kept apart from the others
};

// How many records of one kind each principal has, and whose is the next to go.
class AuditShares {
 public:
  void add(const std::string& principal, std::int64_t records) {
    std::int64_t& count = counts_[principal];
    by_count_.erase({count, principal});
    count += records;
    total_ += records;
    if (count > 0) {
      by_count_.emplace(count, principal);
    } else {
      counts_.erase(principal);
    }
  }

  std::int64_t total() const { return total_; }

  // Returns the principal with the most records; of equals the last by name. REQUIRES: there is a
  // record.
  const std::string& largest() const { return by_count_.rbegin()->second; }
  std::int64_t largest_count() const { return by_count_.rbegin()->first; }

 private:
  std::map<std::string, std::int64_t> counts_;
  std::set<std::pair<std::int64_t, std::string>> by_count_;
  std::int64_t total_ = 0;
};

class StoredAudits {
 public:
  // Runs statements as one transaction, perhaps more than once.
  using Transact = std::function<Status(const std::function<Status()>& statements)>;

  // At most `records_max` of each kind.
  StoredAudits(Database& database, std::int64_t records_max)
      : database_(database), records_max_(records_max) {}

  // Counts what is stored. Once, before any other call.
  Status count();
  // Errors: those of `transact`. Then nothing has changed.
  Status add(const AuditRecord& record, const Transact& transact);
  // The newest `count` of both kinds, oldest first.
  Result<std::vector<AuditRecord>> last(std::uint32_t count);

 private:
  Status insert(const AuditRecord& record);
  // Returns whose record it was.
  Result<std::string> remove(bool by_admin);

  Database& database_;
  const std::int64_t records_max_;
  std::array<AuditShares, 2> shares_;  // what is stored, by by_admin
  std::int64_t last_id_ = 0;
};

}  // namespace phub::server

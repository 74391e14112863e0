// How many records of the audit log each principal has, and whose is the next to go.
//
// A value of the store; under its mutex.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace phub::server {

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

  // Who has most; of several the last by name. REQUIRES: there is a record.
  const std::string& largest() const { return by_count_.rbegin()->second; }
  std::int64_t largest_count() const { return by_count_.rbegin()->first; }

 private:
  std::map<std::string, std::int64_t> counts_;
  std::set<std::pair<std::int64_t, std::string>> by_count_;
  std::int64_t total_ = 0;
};

}  // namespace phub::server

// The start barrier: members that wait until their job runs or has ended. One wait each, which
// costs no thread and is replied to once, when it ends.
//
// Owned by the JobTable; any control thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "server/jobs/job_index.h"

namespace phub::server {

class StartBarrier {
 public:
  struct Key {
    std::uint64_t job_id = 0;
    std::uint32_t worker = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): tidy's error
  };

  struct Wait {
    std::uint64_t number = 0;  // tells it from an earlier wait of the same member
    TimePoint deadline;
    std::chrono::milliseconds timeout{0};
    std::shared_ptr<Member> member;
    Reply reply;
  };

  explicit StartBarrier(JobIndex& index) : index_(index) {}

  // Replies when the job runs or has ended. When `timeout` passes first, the job fails: nobody else
  // could start either. A member waits once: a later call of it takes the place of an earlier one,
  // which is told so (kAborted). Returns the wait's number; 0: it is over.
  std::uint64_t start(const Identity& identity, std::chrono::milliseconds timeout, Reply reply);

  std::size_t waiting() const;

  // ---- All below REQUIRE the mutex ----------------------------------------------------------

  const Wait* find(const Key& key) const;  // null: the member does not wait
  // Who has waited as long as it wanted to, and longest.
  std::optional<Key> first_due() const;
  // Nothing happens when the member does not wait.
  void end(const Key& key, const Status& status);
  void end_all_of(const Job& job, const Status& status);

 private:
  using Waits = std::map<Key, Wait>;
  Waits::iterator end(Waits::iterator found, const Status& status);

  JobIndex& index_;
  Waits waits_;
  std::set<std::pair<TimePoint, Key>> due_;
  std::uint64_t made_ = 0;
};

}  // namespace phub::server

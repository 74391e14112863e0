// The members that wait for the start of their job: one wait each, which costs no thread.
//
// Owned by the JobTable; under its mutex. Whoever takes a wait owes its answer.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "server/jobs/job.h"

namespace phub::server {

// Tells a caller how its call ended. Is called once, without the table's mutex, and returns at
// once.
using Answer = std::function<void(const Status&)>;

struct StartWait {
  std::uint64_t number = 0;  // tells it from an earlier wait of the same member
  TimePoint deadline;
  std::chrono::milliseconds timeout{0};
  std::shared_ptr<Member> member;
  Answer answer;
};

class StartWaits {
 public:
  struct Key {
    std::uint64_t job_id = 0;
    std::uint32_t worker = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): tidy's error
  };

  // REQUIRES: the member does not wait.
  void add(const Key& key, StartWait wait) {
    due_.emplace(wait.deadline, key);
    waits_.emplace(key, std::move(wait));
  }

  const StartWait* find(const Key& key) const {
    const auto found = waits_.find(key);
    return found == waits_.end() ? nullptr : &found->second;
  }

  std::optional<StartWait> take(const Key& key) {
    const auto found = waits_.find(key);
    if (found == waits_.end()) return std::nullopt;
    std::optional<StartWait> taken = std::move(found->second);
    due_.erase({taken->deadline, key});
    waits_.erase(found);
    return taken;
  }

  std::vector<Key> of_job(std::uint64_t job_id) const {
    std::vector<Key> keys;
    for (auto wait = waits_.lower_bound({job_id, 0});
         wait != waits_.end() && wait->first.job_id == job_id; ++wait) {
      keys.push_back(wait->first);
    }
    return keys;
  }

  // Who has waited as long as it wanted to, and longest.
  std::optional<Key> first_due(TimePoint now) const {
    if (due_.empty() || due_.begin()->first > now) return std::nullopt;
    return due_.begin()->second;
  }

  std::size_t size() const { return waits_.size(); }

 private:
  std::map<Key, StartWait> waits_;
  std::set<std::pair<TimePoint, Key>> due_;
};

}  // namespace phub::server

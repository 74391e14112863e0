// A thread for each of a worker's groups (replica_groups.h), of which the first is the caller's,
// and how far each has come in a pass.
//
// GroupThreads: run is called by the thread that made it. Progress: any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/status.h"

namespace phub::train {

class GroupThreads {
 public:
  using Task = std::function<Status(std::uint32_t group)>;

  explicit GroupThreads(std::uint32_t groups);
  GroupThreads(const GroupThreads&) = delete;
  GroupThreads& operator=(const GroupThreads&) = delete;

  // Each group's part on its thread; returns when all have ended. Of several errors the first of
  // those that are not group 0's, for that one may have waited for another.
  Status run(const Task& task);

 private:
  void serve(std::uint32_t group, const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any begun_;
  std::condition_variable ended_;
  const Task* task_ = nullptr;
  std::uint64_t runs_ = 0;
  std::uint32_t busy_ = 0;
  std::vector<Status> results_;
  std::vector<std::jthread> threads_;  // the last: they use the others
};

// Layers that a group has passed.
class Progress {
 public:
  void begin() { passed_.store(0, std::memory_order_relaxed); }
  void pass() {
    passed_.fetch_add(1, std::memory_order_release);  // pairs with has_passed's load
    passed_.notify_all();
  }
  // The group has failed: nobody waits for it.
  void give_up() {
    passed_.store(kGivenUp, std::memory_order_release);
    passed_.notify_all();
  }
  // Waits until it has passed so many; false: it never will.
  bool has_passed(std::uint32_t layers) const {
    std::uint32_t now = passed_.load(std::memory_order_acquire);
    while (now < layers) {
      passed_.wait(now, std::memory_order_acquire);
      now = passed_.load(std::memory_order_acquire);
    }
    return now != kGivenUp;
  }

 private:
  static constexpr std::uint32_t kGivenUp = std::numeric_limits<std::uint32_t>::max();
  std::atomic<std::uint32_t> passed_{0};
};

}  // namespace phub::train

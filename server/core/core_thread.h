// A core's thread: rounds of work, sleeps when they find nothing, and tasks of control threads,
// which run between two rounds.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>

#include "common/base/check.h"
#include "common/base/spsc_ring.h"
#include "common/transport/waiter.h"

namespace phub::server {

class CoreThread {
 public:
  explicit CoreThread(std::unique_ptr<transport::Waiter> waiter) : waiter_(std::move(waiter)) {}
  ~CoreThread() {
    thread_.request_stop();
    waiter_->interrupt();
  }
  CoreThread(const CoreThread&) = delete;
  CoreThread& operator=(const CoreThread&) = delete;

  // Once. `round` returns how long the thread may sleep after it; 0: not at all, it found work.
  template <typename Round>
  void start(Round round) {
    thread_ = std::jthread([this, round](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        run_tasks();
        const std::chrono::milliseconds rest = round();
        rest.count() == 0 ? waiter_->busy() : waiter_->idle(rest);
      }
    });
  }

  // Control threads: runs `function` between two rounds, and returns when it is done. Where there
  // is no thread, the caller's is the core's.
  void call(std::function<void()> function) {
    if (!thread_.joinable()) return function();
    Task task{.run = std::move(function)};
    const std::lock_guard lock(mutex_);
    PHUB_CHECK(tasks_.push(&task), "one task at a time fits");
    waiter_->interrupt();
    task.done.acquire();
  }

  // Any thread: it does not sleep before it has looked again.
  void wake() { waiter_->interrupt(); }

  const transport::Waiter& waiter() const { return *waiter_; }

 private:
  struct Task {
    std::function<void()> run;
    std::binary_semaphore done{0};
  };

  void run_tasks() {
    while (auto task = tasks_.pop()) {
      (*task)->run();
      (*task)->done.release();
    }
  }

  std::unique_ptr<transport::Waiter> waiter_;
  std::mutex mutex_;  // among control threads: the ring has one producer
  SpscRing<Task*> tasks_{1};
  std::jthread thread_;  // last: it uses all of the above, and is joined first
};

}  // namespace phub::server

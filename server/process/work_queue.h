// Threads for calls that take long: they plan, make a job's memory, read and write snapshots.
//
// Work is counted by tenant. Only some of a tenant's runs at a time, the rest of it waits in
// order, and tenants take turns: what one asks for does not hold up another. Work that waits for
// something is done in steps, and has no thread between them. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace phub::server {

struct WorkLimits {
  std::size_t threads = 1;            // made when there is work for them
  std::size_t running_of_tenant = 1;  // at most, between two steps or not
  std::size_t waiting_of_tenant = 0;  // beside those
};

class WorkQueue {
 public:
  // One step: how long until the next one is due; nothing: the work is done.
  using Step = std::function<std::optional<std::chrono::microseconds>()>;

  // `what` is the plural of what is queued, for messages.
  WorkQueue(std::string what, const WorkLimits& limits) : what_(std::move(what)), limits_(limits) {}

  // Returns when all that was posted is done.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // What the caller has made so far is there for work that others post. A library may pass calls
  // between threads in ways that the thread sanitizer does not see.
  void publish() { const std::lock_guard lock(mutex_); }

  // Errors: kResourceExhausted with the figures, or because there can be no thread at all; `work`
  // is then not run. With fewer threads than are allowed, it waits for those that there are.
  Status post(const std::string& tenant, std::function<void()> work);
  // As post. A step is due again when it has rested, before new work of its tenant.
  Status post_steps(const std::string& tenant, Step step);

 private:
  using Clock = std::chrono::steady_clock;
  struct Tenant {
    std::deque<Step> waiting;
    std::deque<Step> due;     // have rested
    std::size_t running = 0;  // those that are due or rest included
  };
  using Tenants = std::map<std::string, Tenant>;
  struct Resting {
    Tenants::iterator tenant;
    Step step;
  };

  void run();
  // Makes those due that have rested; until it is over.
  void watch();
  // These REQUIRE the mutex.
  Status add(const std::string& tenant, Step step);
  Step take(Tenants::iterator tenant);
  void put_to_rest(Tenants::iterator tenant, Step step, std::chrono::microseconds rest);
  // Error: there is no thread for what waits, and will be none.
  Status wake_one();
  // REQUIRES: the mutex. The tenant's work that was posted last is not run.
  void forget_last(const std::string& tenant);
  // REQUIRES: the mutex. Whose work is next; end: nobody's may run now.
  Tenants::iterator next();
  bool may_run(const Tenant& tenant) const {
    return !tenant.due.empty() ||
           (!tenant.waiting.empty() && tenant.running < limits_.running_of_tenant);
  }

  const std::string what_;
  const WorkLimits limits_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Tenants tenants_;          // that have work
  std::string last_;         // whose work was taken last
  std::size_t waiting_ = 0;  // of all tenants together, those that are due included
  std::size_t idle_ = 0;     // threads that wait for work
  std::multimap<Clock::time_point, Resting> resting_;  // by when they are due
  std::condition_variable rested_;                     // there is an earlier one, or it is over
  bool is_stopping_ = false;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
  std::thread watch_;  // made for the first work in steps
};

}  // namespace phub::server

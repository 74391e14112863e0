// Threads for calls that take long: they plan, make a job's memory, read and write snapshots.
//
// Work is counted by tenant. Only some of a tenant's runs at a time, the rest of it waits in
// order, and tenants take turns: what one asks for does not hold up another. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace phub::server {

struct WorkLimits {
  std::size_t threads = 1;            // made when there is work for them
  std::size_t running_of_tenant = 1;  // at most
  std::size_t waiting_of_tenant = 0;  // beside those
};

class WorkQueue {
 public:
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

 private:
  struct Tenant {
    std::deque<std::function<void()>> waiting;
    std::size_t running = 0;
  };
  using Tenants = std::map<std::string, Tenant>;

  void run();
  // REQUIRES: the mutex. Whether the system lets us.
  bool add_thread();
  // REQUIRES: the mutex. The tenant's work that was posted last is not run.
  void forget_last(const std::string& tenant);
  // REQUIRES: the mutex. Whose work is next; end: nobody's may run now.
  Tenants::iterator next();
  bool may_run(const Tenant& tenant) const {
    return !tenant.waiting.empty() && tenant.running < limits_.running_of_tenant;
  }

  const std::string what_;
  const WorkLimits limits_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Tenants tenants_;          // that have work
  std::string last_;         // whose work was taken last
  std::size_t waiting_ = 0;  // of all tenants together
  std::size_t idle_ = 0;     // threads that wait for work
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace phub::server

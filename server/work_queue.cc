#include "server/work_queue.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace phub::server {

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status WorkQueue::post(const std::string& tenant, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  Tenant& own = tenants_[tenant];
  const std::size_t taken = own.running + own.waiting.size();
  const std::size_t allowed = limits_.running_of_tenant + limits_.waiting_of_tenant;
  if (taken >= allowed) {
    return {Code::kResourceExhausted,
            fmt::format("{} {} of tenant \"{}\" are under way, and {} are allowed; wait for them",
                        taken, what_, tenant, allowed)};
  }
  own.waiting.push_back(std::move(work));
  ++waiting_;
  // An idle thread that was woken and has not taken its work yet counts as idle.
  if (waiting_ > idle_ && threads_.size() < limits_.threads && !add_thread() && threads_.empty()) {
    forget_last(tenant);
    return {Code::kResourceExhausted,
            fmt::format("no thread can be made for {}; is the limit of processes (`ulimit -u`, "
                        "TasksMax= of systemd) too low, or memory short?",
                        what_)};
  }
  changed_.notify_one();
  return {};
}

bool WorkQueue::add_thread() {
  try {
    threads_.emplace_back([this] { run(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void WorkQueue::forget_last(const std::string& tenant) {
  const auto own = tenants_.find(tenant);
  own->second.waiting.pop_back();
  --waiting_;
  if (own->second.running == 0 && own->second.waiting.empty()) tenants_.erase(own);
}

WorkQueue::Tenants::iterator WorkQueue::next() {
  auto tenant = tenants_.upper_bound(last_);
  for (std::size_t seen = 0; seen < tenants_.size(); ++seen, ++tenant) {
    if (tenant == tenants_.end()) tenant = tenants_.begin();
    if (may_run(tenant->second)) return tenant;
  }
  return tenants_.end();
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto found = next();
    if (found == tenants_.end()) {
      if (is_stopping_) return;
      ++idle_;
      changed_.wait(lock);
      --idle_;
      continue;
    }
    // Stays where it is while its work runs: entries are erased only when they have none.
    Tenant& tenant = found->second;
    last_ = found->first;
    std::function<void()> work = std::move(tenant.waiting.front());
    tenant.waiting.pop_front();
    --waiting_;
    ++tenant.running;
    lock.unlock();
    work();
    work = nullptr;  // what it holds is given back without the mutex
    lock.lock();
    --tenant.running;
    if (tenant.running == 0 && tenant.waiting.empty()) tenants_.erase(found);
    // This thread takes one thing; what else may run since its tenant has room is another's.
    if (waiting_ > 1) changed_.notify_one();
  }
}

}  // namespace phub::server

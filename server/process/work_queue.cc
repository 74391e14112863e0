#include "server/process/work_queue.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "server/process/make_thread.h"

namespace phub::server {

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  rested_.notify_all();
  if (watch_.joinable()) watch_.join();
}

Status WorkQueue::post(const std::string& tenant, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  return add(tenant, [work = std::move(work)] {
    work();
    return std::optional<std::chrono::microseconds>();
  });
}

Status WorkQueue::post_steps(const std::string& tenant, Step step) {
  const std::lock_guard lock(mutex_);
  if (!watch_.joinable()) {
    PHUB_RETURN_IF_ERROR(make_thread(what_, [this] { watch_ = std::thread([this] { watch(); }); }));
  }
  return add(tenant, std::move(step));
}

Status WorkQueue::add(const std::string& tenant, Step step) {
  Tenant& own = tenants_[tenant];
  const std::size_t taken = own.running + own.waiting.size();
  const std::size_t allowed = limits_.running_of_tenant + limits_.waiting_of_tenant;
  if (taken >= allowed) {
    return {Code::kResourceExhausted,
            fmt::format("{} {} of tenant \"{}\" are under way, and {} are allowed; wait for them",
                        taken, what_, tenant, allowed)};
  }
  own.waiting.push_back(std::move(step));
  ++waiting_;
  const Status woken = wake_one();
  if (!woken.ok()) forget_last(tenant);
  return woken;
}

Status WorkQueue::wake_one() {
  // An idle thread that was woken and has not taken its work yet counts as idle. Who stops waits
  // for the threads that there are.
  const bool is_short = waiting_ > idle_ && threads_.size() < limits_.threads && !is_stopping_;
  if (is_short) {
    const Status made = make_thread(what_, [this] { threads_.emplace_back([this] { run(); }); });
    if (threads_.empty()) return made;
  }
  changed_.notify_one();
  return {};
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
      if (is_stopping_ && resting_.empty()) return;
      ++idle_;
      changed_.wait(lock);
      --idle_;
      continue;
    }
    // Stays where it is while its work runs: entries are erased only when they have none.
    Step step = take(found);
    lock.unlock();
    const auto rest = step();
    if (!rest) step = nullptr;  // what it holds is given back without the mutex
    lock.lock();
    if (rest) {
      put_to_rest(found, std::move(step), *rest);
      continue;
    }
    Tenant& tenant = found->second;
    --tenant.running;
    if (tenant.running == 0 && tenant.waiting.empty()) tenants_.erase(found);
    // This thread takes one thing; what else may run since its tenant has room is another's.
    if (waiting_ > 1) changed_.notify_one();
    if (is_stopping_) changed_.notify_all();  // those that waited for what rested
  }
}

WorkQueue::Step WorkQueue::take(Tenants::iterator tenant) {
  last_ = tenant->first;
  --waiting_;
  const bool is_due = !tenant->second.due.empty();
  std::deque<Step>& queue = is_due ? tenant->second.due : tenant->second.waiting;
  Step step = std::move(queue.front());
  queue.pop_front();
  if (!is_due) ++tenant->second.running;
  return step;
}

void WorkQueue::put_to_rest(Tenants::iterator tenant, Step step, std::chrono::microseconds rest) {
  const auto entry = resting_.emplace(Clock::now() + rest, Resting{tenant, std::move(step)});
  if (entry == resting_.begin()) rested_.notify_one();
}

void WorkQueue::watch() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (resting_.empty()) {
      rested_.wait(lock);
    } else if (const auto first = resting_.begin(); first->first > Clock::now()) {
      const Clock::time_point due = first->first;
      rested_.wait_until(lock, due);
    } else {
      first->second.tenant->second.due.push_back(std::move(first->second.step));
      resting_.erase(first);
      ++waiting_;
      static_cast<void>(wake_one());  // there are threads: they did the step before
    }
  }
}

}  // namespace phub::server

#include "worker/train/group_threads.h"

#include <algorithm>

namespace phub::train {

GroupThreads::GroupThreads(std::uint32_t groups) : results_(groups) {
  for (std::uint32_t group = 1; group < groups; ++group) {
    threads_.emplace_back([this, group](const std::stop_token& stop) { serve(group, stop); });
  }
}

Status GroupThreads::run(const Task& task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    busy_ = static_cast<std::uint32_t>(threads_.size());
    ++runs_;
  }
  begun_.notify_all();
  results_[0] = task(0);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return busy_ == 0; });
  const auto failed = std::find_if(results_.begin() + 1, results_.end(),
                                   [](const Status& result) { return !result.ok(); });
  return failed == results_.end() ? results_[0] : *failed;
}

void GroupThreads::serve(std::uint32_t group, const std::stop_token& stop) {
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  while (begun_.wait(lock, stop, [&] { return runs_ > served; })) {
    served = runs_;
    const Task& task = *task_;
    lock.unlock();
    Status result = task(group);
    lock.lock();
    results_[group] = std::move(result);
    if (--busy_ == 0) ended_.notify_one();
  }
}

}  // namespace phub::train

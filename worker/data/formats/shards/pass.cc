#include "worker/data/formats/shards/pass.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace phub::data {
namespace {

class ItemPass {
 public:
  ItemPass(std::size_t items, const DoItem& work) : items_(items), work_(work) {}

  Status run(const PassOptions& options) {
    // Before there are threads: who watches for signals wants that.
    if (!says(options, 0)) stop(stopped());
    std::vector<std::thread> threads;
    const std::size_t wanted = std::min<std::size_t>(options.threads, items_);
    for (std::size_t i = 0; i < wanted; ++i) threads.emplace_back([this] { work_on(); });
    wait(options);
    for (std::thread& thread : threads) thread.join();
    return failure_;
  }

 private:
  // One thread's part: the next item that nobody has, until there is none.
  void work_on() {
    const IsStopped is_stopped = [this] { return is_stopped_.load(std::memory_order_relaxed); };
    while (!is_stopped()) {
      const std::size_t item = next_.fetch_add(1, std::memory_order_relaxed);
      if (item >= items_) return;
      const Status status = work_(item, is_stopped);
      const std::lock_guard lock(mutex_);
      ++done_;
      if (!status.ok()) stop(status);
      moved_.notify_one();
    }
  }

  // The first error counts: others may be of items that it has stopped. REQUIRES: the mutex.
  void stop(const Status& why) {
    if (failure_.ok()) failure_ = why;
    is_stopped_.store(true, std::memory_order_relaxed);
  }

  // REQUIRES: the mutex.
  Status stopped() const {
    return {Code::kAborted,
            "stopped after " + std::to_string(done_) + " of " + std::to_string(items_) + " shards"};
  }

  // Until all items are done, or the pass is stopped.
  void wait(const PassOptions& options) {
    constexpr std::chrono::milliseconds kRedraw{100};
    std::unique_lock lock(mutex_);
    while (done_ < items_ && failure_.ok()) {
      const std::size_t done = done_;
      lock.unlock();
      const bool goes_on = says(options, done);
      lock.lock();
      if (!goes_on) stop(stopped());
      moved_.wait_for(lock, kRedraw, [&] { return done_ != done || !failure_.ok(); });
    }
    lock.unlock();
    (void)says(options, items_);
  }

  bool says(const PassOptions& options, std::size_t done) const {
    return !options.on_progress ||
           options.on_progress({.samples = done,
                                .of = items_,
                                .bytes = options.bytes ? options.bytes() : std::uint64_t{0}});
  }

  const std::size_t items_;
  const DoItem& work_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> is_stopped_{false};
  std::mutex mutex_;  // of what follows
  std::condition_variable moved_;
  std::size_t done_ = 0;
  Status failure_;
};

}  // namespace

Status pass_over(std::size_t items, const PassOptions& options, const DoItem& work) {
  return ItemPass(items, work).run(options);
}

}  // namespace phub::data

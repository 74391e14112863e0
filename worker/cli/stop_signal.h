// SIGINT and SIGTERM as a flag: the first asks to stop, the second ends the process at once.
//
// Made by main before any other thread, so that all threads inherit the blocked signals;
// requested() may be called from any thread.
#pragma once

#include <atomic>
#include <thread>

namespace phub {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  void watch();

  std::atomic<bool> requested_{false};
  std::atomic<bool> finished_{false};  // the destructor ends the watcher
  std::thread watcher_;                // the last: it uses the others
};

}  // namespace phub

// SIGINT and SIGTERM as a flag: the first asks to stop, the second ends the process at once.
//
// Made by main before any other thread, so that all threads inherit the blocked signals;
// requested() may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "common/base/status.h"

namespace phub {

class StopSignal {
 public:
  static Result<std::unique_ptr<StopSignal>> create();
  ~StopSignal();

  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  StopSignal(int signals, int finished) : signals_(signals), finished_(finished) {}
  void watch();

  int signals_;   // signalfd
  int finished_;  // eventfd: the destructor ends the watcher
  std::atomic<bool> requested_{false};
  std::thread watcher_;
};

}  // namespace phub

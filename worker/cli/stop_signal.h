// SIGINT and SIGTERM as a flag and a token: the first asks to stop, the second ends the process at
// once.
//
// Made by main before any other thread, so that all threads inherit the blocked signals. When it
// goes, signals are as they were. The rest may be called from any thread.
#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

namespace phub {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const { return source_.stop_requested(); }
  std::stop_token token() const { return source_.get_token(); }

 private:
  void watch();

  std::stop_source source_;
  sigset_t before_{};                  // the signals that were blocked before
  std::atomic<bool> finished_{false};  // the destructor ends the watcher
  std::thread watcher_;                // the last: it uses the others
};

}  // namespace phub

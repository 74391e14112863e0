// A line on standard error, from a thread of its own, while something takes long.
//
// Made and destroyed by one thread. Throws std::system_error where no thread can be made.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace phub {

class LateNotice {
 public:
  // Says `text` once if it still exists after `patience`.
  LateNotice(std::chrono::milliseconds patience, std::string text)
      : thread_([this, patience, text = std::move(text) + "\n"](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          wake_.wait_for(lock, stop, patience, [] { return false; });
          if (!stop.stop_requested()) std::fputs(text.c_str(), stderr);
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // the last: it uses the others
};

}  // namespace phub

// A line on standard error while something takes long, so that whoever looks knows what is waited
// for.
//
// Made and destroyed by one thread; the line comes from a thread of its own.
#pragma once

#include <fmt/format.h>

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
      : thread_([this, patience, text = std::move(text)](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          wake_.wait_for(lock, stop, patience, [] { return false; });
          if (!stop.stop_requested()) fmt::print(stderr, "{}\n", text);
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // the last: it uses the others
};

}  // namespace phub

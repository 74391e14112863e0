// Calls a function again and again, from a thread of its own, until it is destroyed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace phub::server {

class Ticker {
 public:
  // `interval`: between the end of a call and the next one. What `tick` uses outlives the ticker.
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick)
      : interval_(interval), tick_(std::move(tick)), thread_([this] { run(); }) {}

  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    stopped_.notify_all();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, interval_, [this] { return is_stopping_; })) {
      lock.unlock();
      tick_();
      lock.lock();
    }
  }

  const std::chrono::milliseconds interval_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace phub::server

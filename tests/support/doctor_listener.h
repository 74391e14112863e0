// A listening doctor in a thread of the test, on a free port of the loopback interface.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/doctor/peer/listen.h"
#include "server/doctor/peer/peer.h"

namespace phub::doctor {

class DoctorListener {
 public:
  // Its address and `stop` are set here.
  explicit DoctorListener(ListenOptions options) {
    options.address = {.host = "127.0.0.1", .port = 0};
    options.limits.stop = &stop_;
    listener_ = std::move(*Listener::create(options));
    thread_ = std::thread([this] {
      ended_ = listener_->serve([this](const std::string& line) { lines_.push_back(line); });
    });
  }
  ~DoctorListener() { stop(); }
  DoctorListener(const DoctorListener&) = delete;
  DoctorListener& operator=(const DoctorListener&) = delete;

  Address address() const { return listener_->address(); }

  // What it has said until then.
  const std::vector<std::string>& stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return lines_;
  }
  // After stop.
  const Status& ended() const { return ended_; }

 private:
  std::atomic<bool> stop_{false};
  std::unique_ptr<Listener> listener_;
  std::vector<std::string> lines_;  // the listener's threads' until stop
  Status ended_;
  std::thread thread_;
};

}  // namespace phub::doctor

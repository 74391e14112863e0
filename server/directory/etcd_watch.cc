#include "server/directory/etcd_watch.h"

#include <utility>

namespace phub::server {

EtcdWatch::EtcdWatch(const EtcdCalls& calls, std::int64_t from_revision, std::chrono::seconds life,
                     std::function<void()> wake)
    : stub_(calls.watch_stub()),
      wake_(std::move(wake)),
      request_(calls.watch_request(from_revision)) {
  context_.set_deadline(std::chrono::system_clock::now() + life);
  calls.prepare(context_);
  stub_.async()->Watch(&context_, this);
  // Reads are asked for from our thread: until one has failed the call must not be over.
  AddHold();
  StartWrite(&request_);
  StartRead(&response_);
  StartCall();
}

EtcdWatch::~EtcdWatch() {
  context_.TryCancel();
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (has_response_) {  // nobody takes it: the read that follows ends the call
      has_response_ = false;
      lock.unlock();
      StartRead(&response_);
      lock.lock();
      continue;
    }
    changed_.wait(lock);
  }
}

std::optional<etcdserverpb::WatchResponse> EtcdWatch::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!has_response_) return std::nullopt;
    has_response_ = false;
  }
  auto taken = std::optional(std::move(response_));  // no read is under way
  response_.Clear();
  StartRead(&response_);
  return taken;
}

std::optional<grpc::Status> EtcdWatch::ended() const {
  const std::lock_guard lock(mutex_);
  return has_response_ ? std::nullopt : ended_;
}

void EtcdWatch::OnReadDone(bool ok) {
  if (!ok) {
    RemoveHold();  // OnDone follows
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    has_response_ = true;
    changed_.notify_all();
  }
  wake_();
}

void EtcdWatch::OnDone(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);  // until it is released the destructor waits
  ended_ = status;
  changed_.notify_all();
  wake_();
}

}  // namespace phub::server

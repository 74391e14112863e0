#include "common/rendezvous/pending_call.h"

#include <grpcpp/alarm.h>

#include <utility>

namespace phub::client {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kConnectingMax{1000};  // that an interrupted call waits for its channel

}  // namespace

PendingCall::PendingCall(ServerCalls& calls, milliseconds timeout, CallMessages messages,
                         const std::stop_token& stop)
    : calls_(calls),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      messages_(std::move(messages)) {
  {
    const std::lock_guard lock(mutex_);
    begin();
  }
  on_stop_.emplace(stop, [this] { give_up(); });
}

PendingCall::~PendingCall() {
  on_stop_.reset();
  give_up();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return status_.has_value(); });
}

Status PendingCall::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return status_.has_value(); });
  if (status_->ok() || !given_up_) return calls_.outcome_of(*status_, timeout_);
  lock.unlock();
  // A server that is there has answered by then.
  calls_.settle(*given_up_ + kConnectingMax);
  return {Code::kAborted, "interrupted while it waited for phub-server at " + calls_.address()};
}

bool PendingCall::is_over() const {
  const std::lock_guard lock(mutex_);
  return status_.has_value();
}

void PendingCall::begin() {
  cancel_ = calls_.begin(messages_, deadline_,
                         [this](const CallOutcome& outcome) { on_outcome(outcome); });
}

void PendingCall::give_up() {
  const std::lock_guard lock(mutex_);
  if (status_ || given_up_) return;
  given_up_ = Clock::now();
  if (cancel_) cancel_();
  if (alarm_) alarm_->Cancel();
}

void PendingCall::on_outcome(const CallOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  cancel_ = nullptr;
  const auto pause = outcome.retry_after;
  if (messages_.tries_again && !given_up_ && pause && Clock::now() + *pause < deadline_) {
    // Not the last one again, within whose event this may be.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(Clock::now() + *pause, [this](bool) { on_pause_over(); });
    return;
  }
  status_ = outcome.status;
  peer_ = outcome.peer;
  done_.notify_all();
}

void PendingCall::on_pause_over() {
  const std::lock_guard lock(mutex_);
  if (!given_up_) return begin();
  status_ = {grpc::StatusCode::CANCELLED, "given up"};
  done_.notify_all();
}

}  // namespace phub::client

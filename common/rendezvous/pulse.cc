#include "common/rendezvous/pulse.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <utility>

namespace phub::client {

using std::chrono::milliseconds;

Pulse::Pulse(Rendezvous& server, PulseOptions options, OnEnd on_end, OnBeat on_beat)
    : server_(server), options_(options), on_end_(std::move(on_end)), on_beat_(std::move(on_beat)) {
  const std::lock_guard lock(mutex_);
  unanswered_ = answered_ = Clock::now();
  begin();
}

Pulse::~Pulse() {
  stop();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return is_idle_; });
}

void Pulse::stop() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  if (cancel_) cancel_();
  if (alarm_) alarm_->Cancel();
}

void Pulse::tell_complete() {
  const std::lock_guard lock(mutex_);
  is_complete_ = true;
  if (!cancel_ && alarm_) alarm_->Cancel();  // ends the pause
}

// It may take until the server is lost: to give it up sooner would only add others behind it.
void Pulse::begin() {
  began_ = Clock::now();
  if (answered_ >= unanswered_) unanswered_ = began_;
  is_told_ = is_complete_;
  const auto left =
      std::chrono::duration_cast<milliseconds>(unanswered_ + options_.deadline - began_);
  cancel_ = server_.begin_heartbeat(std::max(left, milliseconds(1)), is_told_,
                                    [this](const Result<Beat>& beat) { on_reply(beat); });
}

void Pulse::on_reply(const Result<Beat>& beat) {
  if (beat && on_beat_) on_beat_(*beat);
  std::unique_lock lock(mutex_);
  cancel_ = nullptr;
  const auto time = Clock::now();
  if (beat) answered_ = time;
  const bool is_end = beat ? !beat->running : time - unanswered_ >= options_.deadline;
  if (is_end && !std::exchange(is_over_, true)) {
    lock.unlock();
    on_end_(beat);
    lock.lock();
  }
  if (!is_over_) return pause();
  is_idle_ = true;
  idle_.notify_all();
}

void Pulse::pause() {
  const auto rest = is_told_ == is_complete_ ? began_ + options_.interval - Clock::now()
                                             : Clock::duration::zero();
  // Not the last one again, within whose event this may be.
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(std::chrono::system_clock::now() + rest, [this](bool) { on_pause_over(); });
}

void Pulse::on_pause_over() {
  const std::lock_guard lock(mutex_);
  if (!is_over_) return begin();
  is_idle_ = true;
  idle_.notify_all();
}

}  // namespace phub::client

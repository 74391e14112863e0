#include "server/racks/uplink_state.h"

#include <utility>

namespace phub::server {

void UplinkState::complete() {
  const std::lock_guard lock(mutex_);
  complete_ = true;
  changed_.notify_all();
}

void UplinkState::diagnose(const std::string& rack, const std::string& suspicion) {
  const std::lock_guard lock(mutex_);
  if (!suspected_.empty()) return;
  suspected_ = rack;
  suspicion_ = suspicion;
  changed_.notify_all();
}

void UplinkState::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  reason_ = reason;
  changed_.notify_all();
}

void UplinkState::fail(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = why;
  changed_.notify_all();
}

bool UplinkState::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

Status UplinkState::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool UplinkState::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

std::vector<LinkedServer> UplinkState::linked() const {
  const std::lock_guard lock(mutex_);
  return linked_;
}

Result<UplinkState::Asked> UplinkState::take() {
  const std::lock_guard lock(mutex_);
  if (closed_) return Asked();
  if (!failure_.ok()) return failure_;
  Asked asked;
  asked.tells_complete = std::exchange(told_complete_, complete_) != complete_;
  asked.suspected = std::exchange(suspected_, {});
  asked.suspicion = suspicion_;
  return asked;
}

bool UplinkState::told_complete() const {
  const std::lock_guard lock(mutex_);
  return told_complete_;
}

void UplinkState::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_to_do(); });
}

void UplinkState::wait_for(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest, [this] { return has_to_do(); });
}

void UplinkState::set_linked(std::vector<LinkedServer> servers) {
  const std::lock_guard lock(mutex_);
  if (!closed_) linked_ = std::move(servers);
}

std::string UplinkState::begin_leave() {
  const std::lock_guard lock(mutex_);
  linked_.clear();
  return reason_;
}

void UplinkState::end() {
  const std::lock_guard lock(mutex_);
  over_ = true;
}

bool UplinkState::has_to_do() const {
  return closed_ || complete_ != told_complete_ || !suspected_.empty() || !failure_.ok();
}

}  // namespace phub::server

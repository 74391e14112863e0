#include "common/rendezvous/heartbeat_thread.h"

#include <algorithm>

namespace phub::client {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

HeartbeatThread::HeartbeatThread(Membership& membership, milliseconds deadline)
    : membership_(membership),
      deadline_(deadline),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

HeartbeatThread::~HeartbeatThread() {
  thread_.request_stop();
  wake_.notify_all();
}

Status HeartbeatThread::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status HeartbeatThread::leavers() const {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const std::uint32_t worker : left_) {
    names += (names.empty() ? "worker " : ", worker ") + std::to_string(worker);
  }
  return {Code::kAborted, names + " left the job: no further round can complete"};
}

void HeartbeatThread::fail(const Status& status, std::size_t server) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    failed_by_ = server;
  }
  failed_.store(true, std::memory_order_release);
}

Status HeartbeatThread::ask(std::size_t server, milliseconds timeout) {
  const std::lock_guard lock(beat_mutex_);
  const auto beat = membership_.servers[server]->heartbeat(timeout);
  if (!beat) return beat.error();
  if (!beat->left.empty()) {
    const std::lock_guard left_lock(mutex_);
    left_ = beat->left;
    someone_left_.store(true, std::memory_order_release);
  }
  if (beat->running) return {};
  return {Code::kAborted, beat->reason.empty() ? "the job has ended" : beat->reason};
}

void HeartbeatThread::run(const std::stop_token& stop) {
  milliseconds interval{1000};
  for (const JoinInfo& joined : membership_.joined) {
    if (joined.heartbeat_interval.count() > 0)
      interval = std::min(interval, joined.heartbeat_interval);
  }
  std::vector<Clock::time_point> answered(membership_.servers.size(), Clock::now());
  std::mutex mutex;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested() && !failed()) {
    for (std::size_t server = 0; server < answered.size(); ++server) {
      const Status status = ask(server, interval);
      if (status.ok()) {
        answered[server] = Clock::now();
      } else if (status.code() == Code::kAborted) {
        fail(status, server);
      } else if (Clock::now() - answered[server] > deadline_) {
        fail({Code::kUnavailable,
              "server " + membership_.servers[server]->address() + " is lost: " + status.message()},
             server);
      }
    }
    if (failed()) break;
    wake_.wait_for(lock, stop, interval, [] { return false; });
  }
}

Status HeartbeatThread::check(std::uint32_t server) {
  const Status status = ask(server, milliseconds(1000));
  if (status.code() == Code::kAborted) fail(status, server);
  return failed() ? failure() : Status();
}

Status HeartbeatThread::diagnose(std::uint32_t server, std::uint32_t core) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok() && failed_by_ == server) return failure_;
  }
  const std::string name = membership_.servers[server]->address();
  const auto deadline = Clock::now() + std::min(deadline_, milliseconds(2000));
  // A connection can close a moment before the server knows why.
  do {
    const Status status = ask(server, milliseconds(1000));
    if (status.code() == Code::kAborted) fail(status, server);
    if (status.code() == Code::kUnavailable) {
      const Status gone(
          Code::kUnavailable,
          "server " + name + " is gone: its data connection closed and it does not reply");
      fail(gone, server);
      return gone;
    }
    if (!failed()) std::this_thread::sleep_for(milliseconds(20));
  } while (Clock::now() < deadline && !failed());
  fail({Code::kUnavailable,
        "the data connection to server " + name + ", core " + std::to_string(core) + ", was lost"},
       server);
  return failure();
}

}  // namespace phub::client

#include "common/rendezvous/heartbeats.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/rendezvous/pulse.h"

namespace phub::client {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds kIntervalMax{1000};

Status reason_of_end(const Beat& beat) {
  return {Code::kAborted, beat.reason.empty() ? "the job has ended" : beat.reason};
}

}  // namespace

// A pulse that ends at once waits until all are there, to end them.
Heartbeats::Heartbeats(Membership& membership, milliseconds deadline)
    : membership_(membership), deadline_(deadline) {
  const std::lock_guard lock(mutex_);
  for (std::size_t server = 0; server < membership_.servers.size(); ++server) {
    const milliseconds asked = membership_.joined[server].heartbeat_interval;
    const PulseOptions options{.interval = std::min(kIntervalMax, asked), .deadline = deadline_};
    pulses_.push_back(std::make_unique<Pulse>(
        *membership_.servers[server], options,
        [this, server](const Result<Beat>& last) { on_end(server, last); },
        [this](const Beat& beat) { note(beat); }));
  }
}

Heartbeats::~Heartbeats() {
  std::vector<std::unique_ptr<Pulse>> pulses;
  const std::lock_guard lock(mutex_);
  pulses = std::exchange(pulses_, {});
}

Status Heartbeats::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status Heartbeats::leavers() const {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const std::uint32_t worker : left_) {
    names += (names.empty() ? "worker " : ", worker ") + std::to_string(worker);
  }
  return {Code::kAborted, names + " left the job: no further round can complete"};
}

std::vector<std::uint32_t> Heartbeats::lost() const {
  const std::lock_guard lock(mutex_);
  return {lost_.begin(), lost_.end()};
}

bool Heartbeats::has_left(std::uint32_t first, std::uint32_t end) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(left_,
                             [&](std::uint32_t worker) { return worker >= first && worker < end; });
}

void Heartbeats::fail(const Status& status, std::size_t server) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = status;
  failed_by_ = server;
  for (const auto& pulse : pulses_) pulse->stop();
  failed_.store(true, std::memory_order_release);
}

void Heartbeats::note(const Beat& beat) {
  if (beat.left.empty() && beat.lost.empty()) return;
  const std::lock_guard lock(mutex_);
  lost_.insert(beat.lost.begin(), beat.lost.end());
  if (beat.left.empty()) return;
  left_ = beat.left;
  someone_left_.store(true, std::memory_order_release);
}

void Heartbeats::on_end(std::size_t server, const Result<Beat>& last) {
  if (last) return fail(reason_of_end(*last), server);
  fail({Code::kUnavailable,
        "server " + membership_.servers[server]->address() + " is lost: " + last.error().message()},
       server);
}

Status Heartbeats::ask(std::size_t server, milliseconds timeout) {
  const std::lock_guard lock(ask_mutex_);
  const auto beat = membership_.servers[server]->heartbeat(timeout);
  if (!beat) return beat.error();
  note(*beat);
  return beat->running ? Status() : reason_of_end(*beat);
}

Status Heartbeats::check(std::uint32_t server) {
  const Status status = ask(server, milliseconds(1000));
  if (status.code() == Code::kAborted) fail(status, server);
  return failed() ? failure() : Status();
}

Status Heartbeats::diagnose(std::uint32_t server, std::uint32_t core) {
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

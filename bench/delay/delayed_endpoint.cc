#include "bench/delay/delayed_endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace phub::bench {
namespace {

// What room promises at most, and what is handed on at once: a tcp endpoint's own queue.
constexpr std::uint32_t kBatch = 16;

bool watch(const UniqueFd& epoll, int descriptor) {
  epoll_event event = {};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

void DelayedEndpoint::Line::push(const Waiting& waiting) {
  ring[pushed++ % kDepth] = waiting;
  bytes += waiting.write.bytes;
}

void DelayedEndpoint::Line::pop(std::size_t count) {
  for (; count > 0; --count) bytes -= ring[popped++ % kDepth].write.bytes;
}

DelayedEndpoint::DelayedEndpoint(transport::Endpoint& endpoint, const DelayOptions& options,
                                 UniqueFd epoll, UniqueFd timer)
    : endpoint_(endpoint),
      options_(options),
      epoll_(std::move(epoll)),
      timer_(std::move(timer)),
      lines_(options.max_peers) {
  waiting_.reserve(options.max_peers);
}

Result<std::unique_ptr<DelayedEndpoint>> DelayedEndpoint::create(transport::Endpoint& endpoint,
                                                                 const DelayOptions& options) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll || !timer || !watch(epoll, endpoint.wait_fd()) || !watch(epoll, timer.get())) {
    return errno_status("a timer for late writes", Code::kResourceExhausted);
  }
  return std::unique_ptr<DelayedEndpoint>(
      new DelayedEndpoint(endpoint, options, std::move(epoll), std::move(timer)));
}

std::size_t DelayedEndpoint::room(PeerId peer) const {
  const Line& line = lines_[peer];
  return line.bytes >= kMostBytes ? 0 : std::min(kBatch, kDepth - line.size());
}

std::size_t DelayedEndpoint::post(PeerId peer, std::span<const Write> writes) {
  Line& line = lines_[peer];
  const Moment due = options_.now() + options_.delay;
  const std::size_t promised = room(peer);
  const bool was_empty = line.size() == 0;
  std::size_t accepted = 0;
  for (; accepted < writes.size(); ++accepted) {
    if (accepted >= promised && room(peer) == 0) break;
    line.push({writes[accepted], due});
  }
  if (was_empty && accepted > 0) waiting_.push_back(peer);
  return accepted;
}

void DelayedEndpoint::release(PeerId peer, Moment now) {
  Line& line = lines_[peer];
  while (line.size() > 0 && line[0].due <= now) {
    std::array<Write, kBatch> batch;  // NOLINT(*-member-init): filled here
    std::uint32_t count = 0;
    for (; count < std::min(kBatch, line.size()) && line[count].due <= now; ++count) {
      batch[count] = line[count].write;
    }
    const std::size_t accepted = endpoint_.post(peer, {batch.data(), count});
    line.pop(accepted);
    if (accepted < count) return;
  }
}

std::size_t DelayedEndpoint::poll(std::span<Completion> completions) {
  if (!waiting_.empty()) {
    const Moment now = options_.now();
    for (const PeerId peer : waiting_) release(peer, now);
    std::erase_if(waiting_, [&](PeerId peer) { return lines_[peer].size() == 0; });
  }
  return endpoint_.poll(completions);
}

// What is due and stays here waits for the endpoint behind, which wakes its owner when it has room.
bool DelayedEndpoint::arm() {
  std::optional<std::chrono::nanoseconds> next;
  const Moment now = options_.now();
  for (const PeerId peer : waiting_) {
    const std::chrono::nanoseconds left = lines_[peer][0].due - now;
    if (left.count() > 0) {
      next = std::min(left, next.value_or(left));
    } else if (endpoint_.room(peer) > 0) {
      return false;
    }
  }
  set_timer(next);
  return endpoint_.arm();
}

void DelayedEndpoint::set_timer(std::optional<std::chrono::nanoseconds> time) {
  if (!std::exchange(timer_is_set_, time.has_value()) && !time) return;
  constexpr std::chrono::nanoseconds::rep kSecond = 1'000'000'000;
  const auto left = time.value_or(std::chrono::nanoseconds(0)).count();
  itimerspec spec = {};
  spec.it_value.tv_sec = left / kSecond;
  spec.it_value.tv_nsec = left % kSecond;
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void DelayedEndpoint::remove(PeerId peer) {
  release(peer, Moment::max());
  lines_[peer].pop(lines_[peer].size());
  std::erase(waiting_, peer);
  endpoint_.remove(peer);
}

transport::EndpointFront delayed_by(std::chrono::microseconds delay) {
  if (delay.count() == 0) return {};
  return [delay](transport::Endpoint& behind,
                 std::uint32_t max_peers) -> Result<std::unique_ptr<transport::Endpoint>> {
    PHUB_ASSIGN_OR_RETURN(
        auto made, DelayedEndpoint::create(behind, {.delay = delay, .max_peers = max_peers}));
    return std::unique_ptr<transport::Endpoint>(std::move(made));
  };
}

}  // namespace phub::bench

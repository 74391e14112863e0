#include "common/transport/waiter.h"

#include <sched.h>
#include <sys/eventfd.h>

namespace phub::transport {

namespace {
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::int64_t now_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}
}  // namespace

std::uint64_t Waiter::slept_nanoseconds() const {
  const std::int64_t since = asleep_since_.load(std::memory_order_relaxed);
  const std::int64_t current = since == 0 ? 0 : now_nanoseconds() - since;
  return slept_.value() + static_cast<std::uint64_t>(current);
}

Waiter::Waiter(const Waiting& waiting, std::vector<Endpoint*> endpoints, UniqueFd event)
    : waiting_(waiting), endpoints_(std::move(endpoints)), event_(std::move(event)) {
  fds_.push_back({event_.get(), POLLIN, 0});
  for (const Endpoint* endpoint : endpoints_) fds_.push_back({endpoint->wait_fd(), POLLIN, 0});
}

Result<std::unique_ptr<Waiter>> Waiter::create(const Waiting& waiting,
                                               std::vector<Endpoint*> endpoints) {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return errno_status("eventfd", Code::kResourceExhausted);
  return std::unique_ptr<Waiter>(new Waiter(waiting, std::move(endpoints), std::move(event)));
}

void Waiter::idle(std::chrono::milliseconds limit) {
  ++rounds_;
  if (rounds_ <= waiting_.spin_iterations) {
    relax();
  } else if (!waiting_.sleep || rounds_ <= waiting_.spin_iterations + waiting_.yield_iterations) {
    if (waiting_.sleep || waiting_.yield_iterations > 0) ::sched_yield();
  } else {
    sleep(limit);
  }
}

void Waiter::sleep(std::chrono::milliseconds limit) {
  bool armed = true;
  std::size_t count = 0;
  for (; count < endpoints_.size() && armed; ++count) armed = endpoints_[count]->arm();
  if (armed) {
    const std::int64_t start = now_nanoseconds();
    asleep_since_.store(start, std::memory_order_relaxed);
    ::poll(fds_.data(), fds_.size(), static_cast<int>(limit.count()));
    asleep_since_.store(0, std::memory_order_relaxed);
    sleeps_.add(1);
    slept_.add(static_cast<std::uint64_t>(now_nanoseconds() - start));
    if ((fds_[0].revents & POLLIN) != 0) {
      std::uint64_t value = 0;
      [[maybe_unused]] const ssize_t got = ::read(event_.get(), &value, sizeof(value));
      // After the read: an interrupt in between writes nothing, but what it is about is seen by
      // the round of polling that comes now.
      interrupted_.exchange(false, std::memory_order_acq_rel);
    }
  }
  for (std::size_t i = 0; i < count; ++i) endpoints_[i]->disarm();
}

void Waiter::interrupt() {
  if (interrupted_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
}

}  // namespace phub::transport

#include "common/exchange/driver.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

namespace phub::client {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kLongestSleep{200};

milliseconds until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::clamp(left, milliseconds(0), kLongestSleep);
}
}  // namespace

ExchangeDriver::ExchangeDriver(Exchange& exchange, std::size_t keys, std::function<bool()> failed)
    : exchange_(exchange),
      failed_(std::move(failed)),
      started_(keys),
      finished_(keys),
      pushes_(keys + 1) {
  active_.reserve(keys);
}

Result<std::unique_ptr<ExchangeDriver>> ExchangeDriver::create(Exchange& exchange, std::size_t keys,
                                                               bool threaded,
                                                               std::function<bool()> failed) {
  std::unique_ptr<ExchangeDriver> driver(new ExchangeDriver(exchange, keys, std::move(failed)));
  PHUB_ASSIGN_OR_RETURN(driver->waiter_,
                        transport::Waiter::create(Waiting{}, exchange.lanes().endpoints()));
  driver->threaded_ = threaded;
  if (threaded) {
    driver->ready_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!driver->ready_) return errno_status("eventfd", Code::kResourceExhausted);
    driver->thread_ =
        std::jthread([raw = driver.get()](const std::stop_token& stop) { raw->run(stop); });
  }
  return driver;
}

ExchangeDriver::~ExchangeDriver() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  waiter_->interrupt();
}

void ExchangeDriver::push(KeyId key) {
  if (!threaded_) {
    exchange_.start(key);
    exchange_.run_once();
    return;
  }
  ++started_[key];
  PHUB_CHECK(pushes_.push(key), "each key is pushed at most once before it is waited for");
  waiter_->interrupt();
}

void ExchangeDriver::set_hyper(const Hyper& hyper) {
  // Idle: the thread does not look at the hyper-parameters before it takes the next push, and the
  // ring's release and acquire order the two.
  exchange_.set_hyper(hyper);
}

void ExchangeDriver::vote(const Vote& vote) {
  if (!threaded_) {
    exchange_.vote(vote);
    exchange_.run_once();
    return;
  }
  vote_ = vote;  // the thread took the last one before its round was answered
  PHUB_CHECK(pushes_.push(kVoteKey), "one vote follows the pushes of a round");
  waiter_->interrupt();
}

bool ExchangeDriver::ready(KeyId key) const {
  if (!threaded_) return exchange_.ready(key);
  return finished_[key].load(std::memory_order_seq_cst) == started_[key];
}

bool ExchangeDriver::idle() const {
  if (!threaded_) return exchange_.idle();
  for (KeyId key = 0; key < started_.size(); ++key) {
    if (!ready(key)) return false;
  }
  return true;
}

std::optional<ConnectionLoss> ExchangeDriver::loss() const {
  if (threaded_ && !lost_.load(std::memory_order_acquire)) return std::nullopt;
  return exchange_.loss();  // written once, before lost_
}

bool ExchangeDriver::satisfied(std::optional<KeyId> key) const {
  return key ? ready(*key) : idle();
}

ExchangeDriver::End ExchangeDriver::wait(std::optional<KeyId> key, milliseconds timeout) {
  if (satisfied(key)) return End::kReady;
  const auto deadline = Clock::now() + timeout;
  return threaded_ ? wait_threaded(key, deadline) : wait_inline(key, deadline);
}

ExchangeDriver::End ExchangeDriver::wait_inline(std::optional<KeyId> key,
                                                Clock::time_point deadline) {
  while (true) {
    const bool progress = exchange_.run_once();
    if (satisfied(key)) return End::kReady;
    if (exchange_.loss() || failed_()) return End::kFailed;
    if (progress) {
      waiter_->busy();
      continue;
    }
    exchange_.expect(key);
    if (Clock::now() >= deadline) return End::kTimeout;
    waiter_->idle(std::max(until(deadline), milliseconds(1)));
  }
}

ExchangeDriver::End ExchangeDriver::wait_threaded(std::optional<KeyId> key,
                                                  Clock::time_point deadline) {
  pollfd descriptor = {.fd = ready_.get(), .events = POLLIN, .revents = 0};
  while (true) {
    // Pairs with the exchange in report: either we see what finished, or it sees that we sleep.
    awaited_.store(key ? std::int64_t{*key} : kAllKeys, std::memory_order_seq_cst);
    const bool done = satisfied(key);
    const bool failed = !done && (lost_.load(std::memory_order_seq_cst) || failed_());
    if (done || failed || Clock::now() >= deadline) {
      awaited_.store(kNothing, std::memory_order_relaxed);
      return done ? End::kReady : failed ? End::kFailed : End::kTimeout;
    }
    ::poll(&descriptor, 1, static_cast<int>(until(deadline).count()));
    eventfd_t value = 0;
    ::eventfd_read(ready_.get(), &value);
  }
}

bool ExchangeDriver::take_pushes() {
  bool any = false;
  while (const auto key = pushes_.pop()) {
    any = true;
    if (*key == kVoteKey) {
      exchange_.vote(vote_);
      continue;
    }
    exchange_.start(*key);
    active_.push_back(*key);
  }
  return any;
}

// The caller sleeps, and what it sleeps for has happened. A push that still waits in the ring looks
// finished here: then the caller wakes for nothing and sleeps again.
bool ExchangeDriver::is_awaited() const {
  const std::int64_t awaited = awaited_.load(std::memory_order_seq_cst);
  if (awaited == kNothing) return false;
  if (lost_.load(std::memory_order_relaxed)) return true;
  return awaited == kAllKeys ? exchange_.idle() : exchange_.ready(static_cast<KeyId>(awaited));
}

// Tells the caller which keys have become ready.
void ExchangeDriver::report() {
  std::erase_if(active_, [this](KeyId key) {
    if (!exchange_.ready(key)) return false;
    finished_[key].fetch_add(1, std::memory_order_seq_cst);
    return true;
  });
  if (exchange_.loss()) lost_.store(true, std::memory_order_seq_cst);
  if (is_awaited() && awaited_.exchange(kNothing) != kNothing) ::eventfd_write(ready_.get(), 1);
}

void ExchangeDriver::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const bool pushed = take_pushes();
    const bool moved = exchange_.run_once();
    if (moved) report();
    if (pushed || moved) {
      waiter_->busy();
    } else {
      const std::int64_t awaited = awaited_.load(std::memory_order_relaxed);
      // What the caller waits for next is seen after a sleep at the latest.
      if (awaited == kNothing) {
        exchange_.expect_any();
      } else {
        exchange_.expect(awaited == kAllKeys ? std::nullopt
                                             : std::optional(static_cast<KeyId>(awaited)));
      }
      waiter_->idle(kLongestSleep);
    }
  }
}

}  // namespace phub::client

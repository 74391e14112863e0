// Who drives an Exchange: the caller itself, inside push and wait, or a thread of its own.
//
// Inline suits shm, where a push is a few notices: nothing is left to do until the caller waits.
// A thread suits tcp, where bytes must flow while the caller computes.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/spsc_ring.h"
#include "common/exchange/exchange.h"
#include "common/transport/waiter.h"

namespace phub::client {

class ExchangeDriver {
 public:
  // `failed` is asked while waiting: true ends every wait.
  static Result<std::unique_ptr<ExchangeDriver>> create(Exchange& exchange, std::size_t keys,
                                                        bool threaded,
                                                        std::function<bool()> failed);
  ~ExchangeDriver();
  ExchangeDriver(const ExchangeDriver&) = delete;
  ExchangeDriver& operator=(const ExchangeDriver&) = delete;

  void push(KeyId key);
  // REQUIRES: no push is outstanding.
  void set_hyper(const Hyper& hyper);
  // REQUIRES: all replies of the last vote's round have been waited for.
  void vote(const Vote& vote);

  enum class End { kReady, kTimeout, kFailed };
  // Nothing: waits for every key that was pushed.
  End wait(std::optional<KeyId> key, std::chrono::milliseconds timeout);
  bool ready(KeyId key) const;
  bool idle() const;

  // A connection was lost. Any thread that waits sees it.
  std::optional<ConnectionLoss> loss() const;
  void interrupt() { waiter_->interrupt(); }

 private:
  ExchangeDriver(Exchange& exchange, std::size_t keys, std::function<bool()> failed);
  bool satisfied(std::optional<KeyId> key) const;
  End wait_inline(std::optional<KeyId> key, std::chrono::steady_clock::time_point deadline);
  End wait_threaded(std::optional<KeyId> key, std::chrono::steady_clock::time_point deadline);
  void run(const std::stop_token& stop);
  bool take_pushes();
  void report();
  bool is_awaited() const;

  Exchange& exchange_;
  std::function<bool()> failed_;
  std::unique_ptr<transport::Waiter> waiter_;

  // Threaded only. started_ is the caller's; the thread publishes finished pushes by key, with
  // sequential consistency, because awaited_ is checked in between.
  bool threaded_ = false;
  std::vector<std::uint32_t> started_;
  std::vector<std::atomic<std::uint32_t>> finished_;
  std::vector<KeyId> active_;                   // the thread's: keys pushed and not finished
  static constexpr KeyId kVoteKey = ~KeyId{0};  // in the ring: not a key, the vote
  SpscRing<KeyId> pushes_;
  Vote vote_;
  std::atomic<bool> lost_{false};
  static constexpr std::int64_t kNothing = -1;
  static constexpr std::int64_t kAllKeys = -2;
  std::atomic<std::int64_t> awaited_{kNothing};  // what the caller sleeps for on ready_
  UniqueFd ready_;                               // eventfd
  std::jthread thread_;
};

}  // namespace phub::client

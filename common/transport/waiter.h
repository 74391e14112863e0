// Waits for a set of endpoints as a Waiting says: spin, then yield, then sleep.
//
// Belongs to the endpoints' thread. Other threads interrupt a sleep through `interrupt`.
#pragma once

#include <sys/poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "common/base/counter.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/base/waiting.h"
#include "common/transport/transport.h"

namespace phub::transport {

class Waiter {
 public:
  static Result<std::unique_ptr<Waiter>> create(const Waiting& waiting,
                                                std::vector<Endpoint*> endpoints);

  // Call when a round of polling found nothing; sleeps no longer than `limit`.
  void idle(std::chrono::milliseconds limit);
  // Call when it found something.
  void busy() { rounds_ = 0; }

  // Ends a sleep, or keeps the next one from starting. Any thread; costs a system call only when
  // the last one has been noticed.
  void interrupt();

  std::uint64_t sleeps() const { return sleeps_.value(); }
  // The current sleep included.
  std::uint64_t slept_nanoseconds() const;

 private:
  Waiter(const Waiting& waiting, std::vector<Endpoint*> endpoints, UniqueFd event);
  void sleep(std::chrono::milliseconds limit);

  Waiting waiting_;
  std::vector<Endpoint*> endpoints_;
  UniqueFd event_;
  std::atomic<bool> interrupted_{false};  // event_ is, or is about to be, readable
  std::vector<pollfd> fds_;
  std::uint32_t rounds_ = 0;
  Counter sleeps_;
  Counter slept_;
  std::atomic<std::int64_t> asleep_since_{0};  // steady clock, nanoseconds; 0: awake
};

}  // namespace phub::transport

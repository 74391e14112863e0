// Latency where there is none: an endpoint whose writes leave some time
// after they were posted, as if the link were so much longer.
//
// It stands in front of another endpoint, which posts what has waited long enough and does all the
// rest. A write waits in its peer's line, and is read from its place when it leaves the line; what
// waits counts as posted and not as sent. Lines are bounded as an endpoint's own queue is, in bytes
// and writes, so what is more urgent is not kept behind much. Handshakes are not delayed.
//
// Belongs to the thread of the endpoint behind it. After create nothing allocates.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/transport.h"

namespace phub::bench {

inline constexpr std::uint32_t kDelayUsMax = 1'000'000;

struct DelayOptions {
  std::chrono::microseconds delay{0};
  std::uint32_t max_peers = 256;  // of the endpoint behind
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class DelayedEndpoint final : public transport::Endpoint {
 public:
  using Completion = transport::Completion;
  using PeerId = transport::PeerId;
  using Write = transport::Write;

  // The places and bytes of a peer's line. There are many small writes, so that it does not end
  // before its time.
  static constexpr std::uint32_t kDepth = 128;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 10;

  // `endpoint` outlives it. Error: kResourceExhausted, no descriptors.
  static Result<std::unique_ptr<DelayedEndpoint>> create(transport::Endpoint& endpoint,
                                                         const DelayOptions& options);

  std::size_t post(PeerId peer, std::span<const Write> writes) override;
  std::size_t room(PeerId peer) const override;
  std::size_t poll(std::span<Completion> completions) override;
  bool arm() override;
  void disarm() override { endpoint_.disarm(); }
  int wait_fd() const override { return epoll_.get(); }
  void expect(PeerId peer, std::uint32_t arrivals, std::uint64_t bytes) override {
    endpoint_.expect(peer, arrivals, bytes);
  }
  void pause(PeerId peer, bool paused) override { endpoint_.pause(peer, paused); }
  // What still waits leaves first, as far as the endpoint behind takes it.
  void remove(PeerId peer) override;

  bool is_empty() const { return waiting_.empty(); }  // nothing waits

 private:
  using Moment = std::chrono::steady_clock::time_point;

  struct Waiting {
    Write write;
    Moment due;
  };

  // The writes of one peer, the oldest first.
  struct Line {
    std::vector<Waiting> ring = std::vector<Waiting>(kDepth);
    std::uint32_t pushed = 0;
    std::uint32_t popped = 0;
    std::uint64_t bytes = 0;

    std::uint32_t size() const { return pushed - popped; }
    const Waiting& operator[](std::uint32_t i) const { return ring[(popped + i) % kDepth]; }
    void push(const Waiting& waiting);
    void pop(std::size_t count);
  };

  DelayedEndpoint(transport::Endpoint& endpoint, const DelayOptions& options, UniqueFd epoll,
                  UniqueFd timer);
  // Hands on what is due at `now`, until the endpoint behind takes no more.
  void release(PeerId peer, Moment now);
  // Wakes a sleeper after so long; nothing: not at all.
  void set_timer(std::optional<std::chrono::nanoseconds> time);

  transport::Endpoint& endpoint_;
  DelayOptions options_;
  UniqueFd epoll_;  // of the endpoint's descriptor and the timer
  UniqueFd timer_;
  bool timer_is_set_ = false;
  std::vector<Line> lines_;      // by peer
  std::vector<PeerId> waiting_;  // peers whose lines are not empty
};

// Such an endpoint stands in front of each; of 0 none does.
transport::EndpointFront delayed_by(std::chrono::microseconds delay);

}  // namespace phub::bench

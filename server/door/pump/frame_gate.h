// Which frames of a client may reach gRPC, and when.
//
// gRPC keeps about 10 KiB for each stream that it has begun, resets included, and queues a reply to
// each SETTINGS and PING. It bounds neither. So the gate counts the streams that gRPC has, the
// replies that the client has not taken, and the bytes of calls that have not ended. Each frame
// also has a price, which is paid from an allowance that grows with time. A frame beyond a bound is
// held until there is room; only what no client of gRPC's does ends the connection.
//
// Owned by a Pump; its one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>

#include "server/door/pump/frame_head.h"
#include "server/process/token_bucket.h"

namespace phub::server {

struct GateLimits {
  std::size_t streams;  // that gRPC has at once; one that was reset counts for a second more
  std::uint64_t bytes;  // of DATA on streams that have not ended
  double price_per_second;
  double price_burst;
};

// 192 strangers cost gRPC 52 MiB by requests that they do not end, measured, and little more by
// anything else. A request has 128 KiB at most.
inline constexpr GateLimits kStrangerLimits{
    .streams = 4, .bytes = 136 * 1024, .price_per_second = 32, .price_burst = 256};
// As many streams as gRPC allows. How many bytes do not end is bounded by tenant
// (control_served.h).
inline constexpr GateLimits kKnownLimits{
    .streams = 100, .bytes = UINT64_MAX, .price_per_second = 4000, .price_burst = 8000};

class FrameGate {
 public:
  using Clock = TokenBucket::Clock;
  enum class Verdict {
    kPass,
    kHold,  // ask again after wait(), or when a reply has come or was written
    kEnd,   // no client does this; reason() says what
  };

  explicit FrameGate(Clock::time_point now, const GateLimits& limits = kStrangerLimits);

  // REQUIRES: the frame is the next one, and was not let pass yet.
  Verdict admit(const FrameHead& head, Clock::time_point now);
  // gRPC has sent a frame.
  void on_reply(const FrameHead& head);
  // The client's system has taken all replies so far.
  void on_replies_taken();
  // The client is known: it has more from now on.
  void raise(Clock::time_point now, const GateLimits& limits = kKnownLimits);

  // REQUIRES: the last verdict was kHold. At least a millisecond.
  Clock::duration wait(Clock::time_point now);
  // The reason of the last verdict that was not kPass.
  std::string_view reason() const { return reason_; }
  // The frame is held for want of room, which the client could make, and not for its price.
  bool waits_for_room() const { return missing_ == 0; }
  std::uint32_t last_stream() const { return last_stream_; }

 private:
  Verdict hold(std::string_view reason, double missing = 0);
  Verdict end(std::string_view reason);
  Verdict check_shape(const FrameHead& head);
  Verdict check_room(const FrameHead& head, Clock::time_point now);
  void take(const FrameHead& head, Clock::time_point now);
  bool is_new(const FrameHead& head) const {
    return head.type == FrameType::kHeaders && head.stream > last_stream_;
  }
  bool close_stream(std::uint32_t stream);

  GateLimits limits_;
  TokenBucket allowance_;
  std::unordered_map<std::uint32_t, std::uint64_t> streams_;  // that gRPC has; bytes of their DATA
  std::deque<Clock::time_point> resets_;                      // of the last second
  std::uint64_t bytes_ = 0;                                   // of all streams_
  std::uint32_t last_stream_ = 0;
  std::uint32_t block_stream_ = 0;  // of the header block that goes on; 0: none
  std::uint32_t block_bytes_ = 0;
  int block_frames_ = 0;
  int replies_owed_ = 0;  // to SETTINGS and PING: not taken by the client yet
  int replies_sent_ = 0;  // of these, by gRPC
  std::string_view reason_;
  double missing_ = 0;  // of the price; 0: the frame waits for room
};

}  // namespace phub::server

#include "server/door/pump/frame_gate.h"

#include <algorithm>

namespace phub::server {
namespace {

// gRPC refuses metadata of more than 8 KiB, so no client of its sends more.
constexpr std::uint32_t kHeaderBlockBytesMax = 16 * 1024;
constexpr int kHeaderBlockFramesMax = 8;
constexpr std::uint32_t kSettingsBytesMax = 32 * 6;
constexpr std::uint32_t kOtherBytesMax = 1024;
constexpr int kRepliesOwedMax = 8;
// gRPC has forgotten a stream by then that its client has reset.
constexpr std::chrono::seconds kResetLasts{1};
constexpr std::chrono::milliseconds kRoomWait{100};
// What a frame costs beside gRPC's work for another frame.
constexpr double kStreamPrice = 8;
constexpr double kFramePrice = 1;

bool wants_reply(const FrameHead& head) {
  return (head.type == FrameType::kSettings || head.type == FrameType::kPing) && !head.is_ack();
}

}  // namespace

FrameGate::FrameGate(Clock::time_point now, const GateLimits& limits)
    : limits_(limits), allowance_(limits.price_per_second, limits.price_burst, now) {}

FrameGate::Verdict FrameGate::hold(std::string_view reason, double missing) {
  reason_ = reason;
  missing_ = missing;
  return Verdict::kHold;
}

FrameGate::Verdict FrameGate::end(std::string_view reason) {
  reason_ = reason;
  return Verdict::kEnd;
}

FrameGate::Verdict FrameGate::admit(const FrameHead& head, Clock::time_point now) {
  if (const Verdict shape = check_shape(head); shape != Verdict::kPass) return shape;
  if (const Verdict room = check_room(head, now); room != Verdict::kPass) return room;
  const double price = head.type == FrameType::kHeaders ? kStreamPrice : kFramePrice;
  if (const double left = allowance_.left(now); left < price) {
    return hold("more frames than it may send", price - left);
  }
  allowance_.take(now, price);
  take(head, now);
  return Verdict::kPass;
}

FrameGate::Verdict FrameGate::check_shape(const FrameHead& head) {
  if ((head.type == FrameType::kContinuation) != (block_stream_ != 0) ||
      (block_stream_ != 0 && head.stream != block_stream_)) {
    return end("a header block that another frame interrupts");
  }
  switch (head.type) {
    case FrameType::kData:
      return Verdict::kPass;  // gRPC bounds its length
    case FrameType::kHeaders:
      if (head.stream % 2 == 0) return end("a stream that no client may open");
      if (head.length > kHeaderBlockBytesMax) return end("a header block of more than 16 KiB");
      return Verdict::kPass;
    case FrameType::kContinuation:
      if (block_frames_ >= kHeaderBlockFramesMax ||
          head.length > kHeaderBlockBytesMax - block_bytes_) {
        return end("a header block of more than 16 KiB or eight frames");
      }
      return Verdict::kPass;
    case FrameType::kSettings:
      return head.length > kSettingsBytesMax ? end("more than 32 settings") : Verdict::kPass;
    case FrameType::kPushPromise:
      return end("a push, which only servers make");
    default:
      return head.length > kOtherBytesMax ? end("a control frame of more than 1 KiB")
                                          : Verdict::kPass;
  }
}

FrameGate::Verdict FrameGate::check_room(const FrameHead& head, Clock::time_point now) {
  if (is_new(head)) {
    while (!resets_.empty() && now - resets_.front() >= kResetLasts) resets_.pop_front();
    if (streams_.size() + resets_.size() >= limits_.streams) return hold("calls that do not end");
  }
  if (wants_reply(head) && replies_owed_ >= kRepliesOwedMax) {
    return hold("replies to PING or SETTINGS that it does not read");
  }
  if (head.type == FrameType::kData && bytes_ != 0 && bytes_ + head.length > limits_.bytes) {
    return hold("requests that do not end");
  }
  return Verdict::kPass;
}

void FrameGate::take(const FrameHead& head, Clock::time_point now) {
  if (head.type == FrameType::kHeaders) {
    if (is_new(head)) {
      last_stream_ = head.stream;
      streams_.emplace(head.stream, 0);
    }
    block_bytes_ = 0;
    block_frames_ = 0;
  }
  if (head.type == FrameType::kHeaders || head.type == FrameType::kContinuation) {
    block_stream_ = head.ends_headers() ? 0 : head.stream;
    block_bytes_ += head.length;
    ++block_frames_;
  }
  if (head.type == FrameType::kData) {
    if (const auto stream = streams_.find(head.stream); stream != streams_.end()) {
      stream->second += head.length;
      bytes_ += head.length;
    }
  }
  if (head.type == FrameType::kReset && close_stream(head.stream)) resets_.push_back(now);
  if (wants_reply(head)) ++replies_owed_;
}

bool FrameGate::close_stream(std::uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return false;
  bytes_ -= found->second;
  streams_.erase(found);
  return true;
}

void FrameGate::on_reply(const FrameHead& head) {
  switch (head.type) {
    case FrameType::kHeaders:
    case FrameType::kData:
      if (head.ends_stream()) close_stream(head.stream);
      return;
    case FrameType::kReset:
      close_stream(head.stream);
      return;
    case FrameType::kSettings:
    case FrameType::kPing:
      if (head.is_ack()) ++replies_sent_;
      return;
    default:
      return;
  }
}

void FrameGate::on_replies_taken() {
  replies_owed_ = std::max(0, replies_owed_ - replies_sent_);
  replies_sent_ = 0;
}

void FrameGate::raise(Clock::time_point now, const GateLimits& limits) {
  limits_ = limits;
  allowance_ = TokenBucket(limits.price_per_second, limits.price_burst, now);
}

FrameGate::Clock::duration FrameGate::wait(Clock::time_point now) {
  using std::chrono::milliseconds;
  if (missing_ > 0) {
    const std::chrono::duration<double> time(missing_ / limits_.price_per_second);
    return std::max<Clock::duration>(milliseconds(1), std::chrono::ceil<milliseconds>(time));
  }
  if (resets_.empty()) return kRoomWait;
  return std::clamp<Clock::duration>(resets_.front() + kResetLasts - now, milliseconds(1),
                                     kResetLasts);
}

}  // namespace phub::server

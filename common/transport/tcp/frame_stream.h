// How a tcp stream carries frames: as they are (PlainStream) or in sealed records (SealedStream).
// TcpEndpoint is written once over both, as a template; a stream has
//
//   bool is_all_sent(const FrameQueue&) const   nothing of the queue or of its own waits
//   std::size_t gather(FrameQueue&, parts)      puts the next bytes of the stream into `parts`, of
//                                               which there are FrameQueue::kMostParts; how many
//   void sent(FrameQueue&, std::size_t bytes)   so many of them have gone; a frame that need not be
//                                               read again has left the queue
//
//   std::array<iovec, 2> room(const Payload&)   where the next bytes of the stream go; one of the
//                                               two may be empty
//   StreamEvent arrived(std::size_t bytes, const Payload&)   so many have been read there
//   FrameHeader header() const                  after StreamEvent::kHeader
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/transport/tcp/frame.h"
#include "common/transport/transport.h"

namespace phub::transport {

// The payload that is being read; without data: a header comes next.
struct Payload {
  std::byte* data = nullptr;
  std::uint32_t bytes = 0;
};

// kHeader: header() is the next frame's. kPayload: the payload is whole; the next header may be
// too, which arrived(0, {}) tells.
enum class StreamEvent { kNothing, kHeader, kPayload, kForged };

// Frames of one stream that wait to be sent, the oldest first.
class FrameQueue {
 public:
  // Little, so that a more urgent chunk does not wait for long.
  static constexpr std::uint32_t kDepth = 16;
  static constexpr std::size_t kMostParts = 2 * kDepth;  // a header and a payload each
  using Parts = std::span<iovec, kMostParts>;

  struct Frame {
    FrameHeader header;
    const std::byte* payload;

    std::size_t bytes() const { return sizeof(header) + header.bytes; }
  };

  std::uint32_t size() const { return pushed_ - popped_; }
  const Frame& operator[](std::uint32_t index) const { return frames_[(popped_ + index) % kDepth]; }

  // REQUIRES: size() < kDepth.
  void push(const Write& write) {
    frames_[pushed_++ % kDepth] = {.header = {.magic = kFrameMagic,
                                              .immediate = write.immediate,
                                              .bytes = write.bytes,
                                              .check = frame_check(write.immediate, write.bytes)},
                                   .payload = write.data};
  }
  void push_checked(const Write& write, std::uint32_t checksum) {
    frames_[pushed_++ % kDepth] = {
        .header = {.magic = checksum,
                   .immediate = write.immediate,
                   .bytes = write.bytes,
                   .check = checked_frame_check(write.immediate, write.bytes, checksum)},
        .payload = write.data};
  }
  void pop() { ++popped_; }

 private:
  std::array<Frame, kDepth> frames_ = {};
  std::uint32_t pushed_ = 0;
  std::uint32_t popped_ = 0;
};

}  // namespace phub::transport

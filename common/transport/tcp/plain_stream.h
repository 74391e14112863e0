// A tcp stream whose frames are sent as they are: headers and payloads, one after the other.
//
// Belongs to the endpoint that has the connection, and its thread.
#pragma once

#include <algorithm>

#include "common/transport/tcp/frame_stream.h"

namespace phub::transport {

class PlainStream {
 public:
  bool is_all_sent(const FrameQueue& frames) const { return frames.size() == 0; }

  // All of the queue: a batch is one call.
  std::size_t gather(const FrameQueue& frames, FrameQueue::Parts parts) const {
    std::size_t count = 0;
    std::size_t skip = sent_;
    const auto add = [&](const void* data, std::size_t bytes) {
      const std::size_t gone = std::min(skip, bytes);
      skip -= gone;
      if (gone == bytes) return;
      // iovec is not const-correct; sendmsg only reads.
      auto* start = static_cast<std::byte*>(const_cast<void*>(data));  // NOLINT
      parts[count++] = {start + gone, bytes - gone};
    };
    for (std::uint32_t i = 0; i < frames.size(); ++i) {
      add(&frames[i].header, sizeof(FrameHeader));
      add(frames[i].payload, frames[i].header.bytes);
    }
    return count;
  }

  void sent(FrameQueue& frames, std::size_t bytes) {
    sent_ += bytes;
    for (; frames.size() > 0 && sent_ >= frames[0].bytes(); frames.pop()) {
      sent_ -= frames[0].bytes();
    }
  }

  // A payload and the next header come in one call.
  std::array<iovec, 2> room(const Payload& payload) {
    const iovec header = {reinterpret_cast<std::byte*>(&header_) + header_bytes_,
                          sizeof(header_) - header_bytes_};
    if (payload.data == nullptr) return {header, iovec{}};
    return {iovec{payload.data + payload_bytes_, payload.bytes - payload_bytes_}, header};
  }

  StreamEvent arrived(std::size_t bytes, const Payload& payload) {
    const std::size_t taken = std::min(bytes, payload.bytes - payload_bytes_);
    payload_bytes_ += taken;
    header_bytes_ += bytes - taken;
    if (payload.data != nullptr) {
      if (payload_bytes_ < payload.bytes) return StreamEvent::kNothing;
      payload_bytes_ = 0;
      return StreamEvent::kPayload;
    }
    if (header_bytes_ < sizeof(header_)) return StreamEvent::kNothing;
    header_bytes_ = 0;
    return StreamEvent::kHeader;
  }

  FrameHeader header() const { return header_; }

 private:
  std::size_t sent_ = 0;           // of the queue's first frame
  FrameHeader header_ = {};        // the next frame's
  std::size_t header_bytes_ = 0;   // read
  std::size_t payload_bytes_ = 0;  // read
};

}  // namespace phub::transport

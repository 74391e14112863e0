// An encrypted tcp stream (frame_stream.h): the frames of frame.h as a sequence of sealed records.
//
//   record of a header    16 bytes, 16 of tag
//   records of a payload  at most 32 KiB each, all but the last 32 KiB; 16 of tag each
//
// A header is acted on after its tag has been verified, a payload is handed over after all of its
// tags have been. Who listens sees lengths and times, so how large chunks are and when they go, but
// neither which chunk it is nor a byte of it. One record is a default chunk: it is in the cache
// when it is opened.
//
// Belongs to the endpoint that has the connection, and its thread. After create nothing allocates.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/transport/tcp/frame_stream.h"
#include "common/transport/tcp/stream_keys.h"

namespace phub::transport {

class SealedStream {
 public:
  static Result<std::unique_ptr<SealedStream>> create(const StreamKeys& keys, HandshakeRole own);

  // Of memory, that a stream takes as long as it is there: what it seals into.
  static constexpr std::size_t buffer_bytes() {
    return kStagedRecords * (kHeaderRecord + kRecord + kTag);
  }

  // Frames are sealed into a buffer, which is sent before it is filled again. A sealed frame leaves
  // the queue: what it came from is not read again.
  bool is_all_sent(const FrameQueue& frames) const { return frames.size() == 0 && filled_ == 0; }
  std::size_t gather(FrameQueue& frames, FrameQueue::Parts parts);
  void sent(FrameQueue& frames, std::size_t bytes);

  std::array<iovec, 2> room(const Payload& payload);
  StreamEvent arrived(std::size_t bytes, const Payload& payload);
  FrameHeader header() const;

 private:
  static constexpr std::size_t kTag = RecordCipher::kTagBytes;
  static constexpr std::size_t kHeaderRecord = sizeof(FrameHeader) + kTag;
  static constexpr std::size_t kRecord = RecordCipher::kMaxRecordBytes;
  static constexpr std::size_t kStagedRecords = 4;

  SealedStream() = default;
  // Seals what still fits of the frame; whether that was its end.
  bool seal(const FrameQueue::Frame& frame);
  std::size_t record_end(const Payload& payload) const;

  std::unique_ptr<RecordCipher> seal_;
  std::unique_ptr<RecordCipher> open_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;    // of what the buffer holds
  std::size_t filled_ = 0;  // 0: all of it has been sent
  std::size_t sealed_ = 0;  // of the queue's first frame
  // What follows the bytes of a payload's record: its tag and, after the last one, the record of
  // the next header. While there is no payload the tag counts as read.
  std::array<std::byte, kTag + kHeaderRecord> tail_ = {};
  std::size_t tail_bytes_ = kTag;
  std::size_t payload_bytes_ = 0;  // read
  std::size_t record_begin_ = 0;   // of the payload's record that is being read
};

}  // namespace phub::transport

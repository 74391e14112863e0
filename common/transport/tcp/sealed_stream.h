// An encrypted tcp stream: the frames of frame.h as a sequence of sealed records.
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

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/transport/tcp/frame.h"
#include "common/transport/tcp/stream_keys.h"

namespace phub::transport {

class SealedStream {
 public:
  static Result<std::unique_ptr<SealedStream>> create(const StreamKeys& keys, Role own);

  // Of memory, that a stream takes as long as it is there: what it seals into.
  static constexpr std::size_t buffer_bytes() {
    return kStagedRecords * (kHeaderRecord + kRecord + kTag);
  }

  // ---- sending: records are sealed into a buffer, which is sent before it is filled again ----
  bool is_all_sent() const { return sent_ == filled_; }
  std::span<const std::byte> unsent() const {
    return std::span(out_).subspan(sent_, filled_ - sent_);
  }
  void sent(std::size_t bytes);
  // Seals what still fits of a frame whose first `done` bytes (of header and payload) are sealed;
  // how many are then.
  std::size_t seal(const FrameHeader& header, const std::byte* payload, std::size_t done);

  // ---- receiving ----
  // The payload that is being read; none: a header comes next.
  struct Target {
    std::byte* data = nullptr;
    std::uint32_t bytes = 0;
  };
  enum class Event { kNothing, kHeader, kPayload, kForged };

  // Where the next bytes of the stream go.
  std::array<iovec, 2> room(const Target& target);
  // So many bytes have been read there. kHeader: header() is the next frame's. kPayload: the
  // payload is whole; the next header may be too, which arrived(0, {}) tells.
  Event arrived(std::size_t bytes, const Target& target);
  FrameHeader header() const;

 private:
  static constexpr std::size_t kTag = RecordCipher::kTagBytes;
  static constexpr std::size_t kHeaderRecord = sizeof(FrameHeader) + kTag;
  static constexpr std::size_t kRecord = RecordCipher::kMaxRecordBytes;
  static constexpr std::size_t kStagedRecords = 4;

  SealedStream() = default;
  std::size_t record_end(const Target& target) const;

  std::unique_ptr<RecordCipher> seal_;
  std::unique_ptr<RecordCipher> open_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::size_t filled_ = 0;
  // What follows the bytes of a payload's record: its tag and, after the last one, the record of
  // the next header. While there is no payload the tag counts as read.
  std::array<std::byte, kTag + kHeaderRecord> tail_ = {};
  std::size_t tail_bytes_ = kTag;
  std::size_t payload_bytes_ = 0;  // read
  std::size_t record_begin_ = 0;   // of the payload's record that is being read
};

}  // namespace phub::transport

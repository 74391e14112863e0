#include "common/transport/tcp/sealed_stream.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace phub::transport {

Result<std::unique_ptr<SealedStream>> SealedStream::create(const StreamKeys& keys,
                                                           HandshakeRole own) {
  const bool is_worker = own == HandshakeRole::kWorker;
  std::unique_ptr<SealedStream> stream(new SealedStream());
  PHUB_ASSIGN_OR_RETURN(stream->seal_, RecordCipher::create(RecordCipher::Way::kSeal,
                                                            is_worker ? keys.worker : keys.server));
  PHUB_ASSIGN_OR_RETURN(stream->open_, RecordCipher::create(RecordCipher::Way::kOpen,
                                                            is_worker ? keys.server : keys.worker));
  stream->out_.resize(buffer_bytes());
  return stream;
}

std::size_t SealedStream::gather(FrameQueue& frames, FrameQueue::Parts parts) {
  if (filled_ == 0) {
    while (frames.size() > 0 && seal(frames[0])) frames.pop();
  }
  parts[0] = {out_.data() + sent_, filled_ - sent_};
  return 1;
}

void SealedStream::sent(FrameQueue&, std::size_t bytes) {
  sent_ += bytes;
  if (sent_ == filled_) sent_ = filled_ = 0;
}

bool SealedStream::seal(const FrameQueue::Frame& frame) {
  while (sealed_ < frame.bytes()) {
    const auto piece = sealed_ == 0 ? std::as_bytes(std::span(&frame.header, 1))
                                    : std::span(frame.payload + (sealed_ - sizeof(FrameHeader)),
                                                std::min(kRecord, frame.bytes() - sealed_));
    if (out_.size() - filled_ < piece.size() + kTag) return false;
    seal_->seal(piece, out_.data() + filled_);
    filled_ += piece.size() + kTag;
    sealed_ += piece.size();
  }
  sealed_ = 0;
  return true;
}

std::size_t SealedStream::record_end(const Payload& payload) const {
  return std::min<std::size_t>(record_begin_ + kRecord, payload.bytes);
}

std::array<iovec, 2> SealedStream::room(const Payload& payload) {
  const std::size_t end = record_end(payload);
  const std::size_t tail = end < payload.bytes ? kTag : tail_.size();
  return {iovec{payload.data + payload_bytes_, end - payload_bytes_},
          iovec{tail_.data() + tail_bytes_, tail - tail_bytes_}};
}

StreamEvent SealedStream::arrived(std::size_t bytes, const Payload& payload) {
  const std::size_t end = record_end(payload);
  const std::size_t taken = std::min(bytes, end - payload_bytes_);
  payload_bytes_ += taken;
  tail_bytes_ += bytes - taken;
  if (payload.data == nullptr) {
    if (tail_bytes_ < tail_.size()) return StreamEvent::kNothing;
    tail_bytes_ = 0;
    const auto header = std::span(tail_).subspan(kTag, sizeof(FrameHeader));
    return open_->open(header, header.data() + header.size()) ? StreamEvent::kHeader
                                                              : StreamEvent::kForged;
  }
  if (payload_bytes_ < end || tail_bytes_ < kTag) return StreamEvent::kNothing;
  if (!open_->open({payload.data + record_begin_, end - record_begin_}, tail_.data())) {
    return StreamEvent::kForged;
  }
  if (end < payload.bytes) {
    record_begin_ = end;
    tail_bytes_ = 0;
    return StreamEvent::kNothing;
  }
  payload_bytes_ = record_begin_ = 0;
  return StreamEvent::kPayload;
}

FrameHeader SealedStream::header() const {
  FrameHeader header = {};
  std::memcpy(&header, tail_.data() + kTag, sizeof(header));
  return header;
}

}  // namespace phub::transport

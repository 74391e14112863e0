#include "common/transport/tcp/sealed_stream.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace phub::transport {

Result<std::unique_ptr<SealedStream>> SealedStream::create(const StreamKeys& keys, Role own) {
  const bool is_worker = own == Role::kWorker;
  std::unique_ptr<SealedStream> stream(new SealedStream());
  PHUB_ASSIGN_OR_RETURN(stream->seal_, RecordCipher::create(RecordCipher::Way::kSeal,
                                                            is_worker ? keys.worker : keys.server));
  PHUB_ASSIGN_OR_RETURN(stream->open_, RecordCipher::create(RecordCipher::Way::kOpen,
                                                            is_worker ? keys.server : keys.worker));
  stream->out_.resize(buffer_bytes());
  return stream;
}

void SealedStream::sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ == filled_) sent_ = filled_ = 0;
}

std::size_t SealedStream::seal(const FrameHeader& header, const std::byte* payload,
                               std::size_t done) {
  const std::size_t whole = sizeof(header) + header.bytes;
  while (done < whole) {
    const auto piece =
        done == 0 ? std::as_bytes(std::span(&header, 1))
                  : std::span(payload + (done - sizeof(header)), std::min(kRecord, whole - done));
    if (out_.size() - filled_ < piece.size() + kTag) break;
    seal_->seal(piece, out_.data() + filled_);
    filled_ += piece.size() + kTag;
    done += piece.size();
  }
  return done;
}

std::size_t SealedStream::record_end(const Target& target) const {
  return std::min<std::size_t>(record_begin_ + kRecord, target.bytes);
}

std::array<iovec, 2> SealedStream::room(const Target& target) {
  const std::size_t end = record_end(target);
  const std::size_t tail = end < target.bytes ? kTag : tail_.size();
  return {iovec{target.data + payload_bytes_, end - payload_bytes_},
          iovec{tail_.data() + tail_bytes_, tail - tail_bytes_}};
}

SealedStream::Event SealedStream::arrived(std::size_t bytes, const Target& target) {
  const std::size_t end = record_end(target);
  const std::size_t taken = std::min(bytes, end - payload_bytes_);
  payload_bytes_ += taken;
  tail_bytes_ += bytes - taken;
  if (target.data == nullptr) {
    if (tail_bytes_ < tail_.size()) return Event::kNothing;
    tail_bytes_ = 0;
    const auto header = std::span(tail_).subspan(kTag, sizeof(FrameHeader));
    return open_->open(header, header.data() + header.size()) ? Event::kHeader : Event::kForged;
  }
  if (payload_bytes_ < end || tail_bytes_ < kTag) return Event::kNothing;
  if (!open_->open({target.data + record_begin_, end - record_begin_}, tail_.data())) {
    return Event::kForged;
  }
  if (end < target.bytes) {
    record_begin_ = end;
    tail_bytes_ = 0;
    return Event::kNothing;
  }
  payload_bytes_ = record_begin_ = 0;
  return Event::kPayload;
}

FrameHeader SealedStream::header() const {
  FrameHeader header = {};
  std::memcpy(&header, tail_.data() + kTag, sizeof(header));
  return header;
}

}  // namespace phub::transport

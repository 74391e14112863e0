// One end of a stream of frames, whose other end is a core's: it sends and reads in pieces of any
// size.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/transport/tcp/frame.h"
#include "tests/support/server/streams_rig.h"

namespace phub::simulation {

struct Frame {
  std::uint32_t immediate = 0;
  std::vector<std::byte> payload;
};
inline std::vector<std::byte> bytes_of(std::uint32_t immediate,
                                       std::span<const std::byte> payload) {
  return testing::StreamsJob::frame_of(immediate, payload);
}

class StreamEnd {
 public:
  explicit StreamEnd(UniqueFd socket) : socket_(std::move(socket)) {}

  void send_later(std::span<const std::byte> bytes) {
    unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  }
  // Sends at most so many bytes of what is to go; how many.
  std::size_t pump(std::size_t most) {
    const std::size_t count = std::min(most, unsent_.size());
    if (count == 0 || !socket_) return 0;
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return 0;
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
    return static_cast<std::size_t>(sent);
  }
  bool is_all_sent() const { return unsent_.empty(); }

  // Reads at most so many bytes; how many. Frames that are whole now are added to `frames`.
  std::size_t take(std::size_t most, std::vector<Frame>& frames) {
    if (!socket_ || ended_) return 0;
    const std::size_t had = received_.size();
    received_.resize(had + most);
    const ssize_t got = ::recv(socket_.get(), &received_[had], most, MSG_DONTWAIT);
    received_.resize(had + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) ended_ = true;
    std::size_t at = 0;
    for (transport::FrameHeader header = {}; received_.size() - at >= sizeof(header);) {
      std::memcpy(&header, &received_[at], sizeof(header));
      const std::size_t end = at + sizeof(header) + header.bytes;
      if (received_.size() < end) break;
      const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(at + sizeof(header));
      frames.push_back({header.immediate, {begin, begin + header.bytes}});
      at = end;
    }
    received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(at));
    return received_.size() + at - had;
  }
  // The core has closed its end, and all that it sent is read.
  bool has_ended() const { return ended_; }
  void close() { socket_.reset(); }
  bool is_open() const { return static_cast<bool>(socket_); }

 private:
  UniqueFd socket_;
  std::vector<std::byte> unsent_;
  std::vector<std::byte> received_;  // the beginning of a frame
  bool ended_ = false;
};

}  // namespace phub::simulation

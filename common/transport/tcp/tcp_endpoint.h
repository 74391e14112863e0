// The tcp backend: one stream per (worker, core), IPv4 or IPv6, epoll.
//
// A frame's payload is read straight to where Placement wants it, together with the next frame's
// header in one call; frames are written in batches with one writev. A stream that breaks the
// protocol is lost, nothing else.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/tcp/frame.h"
#include "common/transport/transport.h"

namespace phub::transport {

struct TcpOptions {
  std::uint32_t max_peers = 256;
  std::uint32_t max_write_bytes = 4U << 20;
  int socket_buffer_bytes = 0;  // SO_SNDBUF and SO_RCVBUF; 0: the system's autotuning
};

class TcpEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<TcpEndpoint>> create(const TcpOptions& options,
                                                     Placement& placement);
  ~TcpEndpoint() override;
  TcpEndpoint(const TcpEndpoint&) = delete;
  TcpEndpoint& operator=(const TcpEndpoint&) = delete;

  // Takes a connected, authenticated stream. Error: kResourceExhausted at max_peers.
  Result<PeerId> add(UniqueFd socket);

  std::size_t post(PeerId peer, std::span<const Write> writes) override;
  std::size_t room(PeerId peer) const override;
  std::size_t poll(std::span<Completion> completions) override;
  bool arm() override { return true; }  // epoll is level-triggered: nothing can be missed
  void disarm() override {}
  int wait_fd() const override { return epoll_.get(); }
  void expect(PeerId, std::uint32_t) override {}
  void pause(PeerId peer, bool paused) override;
  void remove(PeerId peer) override;

 private:
  static constexpr std::size_t kSendDepth = 16;     // frames queued per peer: little, so that a
                                                    // more urgent chunk does not wait for long
  static constexpr std::size_t kReadsPerPoll = 16;  // frames of one peer before the next's turn

  struct Frame {
    FrameHeader header;
    const std::byte* data;
    bool signaled;
  };

  struct Peer {
    UniqueFd socket;
    bool lost = false;
    Loss loss = Loss::kNone;
    // Receiving: `header_bytes` of the header are there; when all are, `payload` is the place.
    FrameHeader header = {};
    std::uint32_t header_bytes = 0;
    std::uint32_t payload_bytes = 0;
    std::byte* payload = nullptr;
    // Sending: frames [sent, queued) of a ring; `offset` bytes of the first are on their way.
    Frame frames[kSendDepth] = {};
    std::uint32_t sent = 0;
    std::uint32_t queued = 0;
    std::size_t offset = 0;
    bool wants_write = false;
    bool paused = false;
  };

  TcpEndpoint(const TcpOptions& options, Placement& placement, UniqueFd epoll);

  void send(PeerId id, Peer& peer);
  std::size_t gather(const Peer& peer, std::span<struct iovec> vectors) const;
  void sent_bytes(PeerId id, Peer& peer, std::size_t bytes);
  void watch(PeerId id, const Peer& peer);
  // Reads frames of one peer into `completions`; how many were completed.
  std::size_t receive(PeerId id, Peer& peer, std::span<Completion> completions);
  bool open_frame(PeerId id, Peer& peer);
  void lose(Peer& peer, Loss loss);
  std::size_t drain_reports(std::span<Completion> completions);

  TcpOptions options_;
  Placement& placement_;
  UniqueFd epoll_;
  std::vector<Peer> peers_;  // fixed size
  std::vector<PeerId> free_;
  std::vector<PeerId> lost_;         // lost, not reported yet
  std::vector<Completion> written_;  // signaled writes that are out, not reported yet
};

}  // namespace phub::transport

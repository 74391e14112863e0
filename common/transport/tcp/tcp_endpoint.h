// The tcp backend: one stream per (worker, core), IPv4 or IPv6, epoll; plain or encrypted.
//
// A frame's payload is read straight to where ReceiveBuffers wants it, together with the next
// frame's header in one call; frames are written in batches with one sendmsg. How frames lie in the
// stream is the stream's to know (frame_stream.h). One that breaks the protocol is lost, nothing
// else.
//
// epoll is edge-triggered: it says once that a socket has something, and a list keeps it until the
// socket has been read to its end. So a look costs what has changed, not what is waiting, and none
// of the waiting is forgotten however many they are.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/tcp/frame_stream.h"
#include "common/transport/tcp/plain_stream.h"
#include "common/transport/tcp/sealed_stream.h"
#include "common/transport/transport.h"

namespace phub::transport {

struct TcpOptions {
  std::uint32_t max_peers = 256;
  std::uint32_t max_write_bytes = 4U << 20;
};

// A connected, authenticated stream.
struct TcpStream {
  // NOLINTNEXTLINE(google-explicit-constructor): a plain stream is a socket
  TcpStream(UniqueFd socket_, std::unique_ptr<SealedStream> sealed_ = nullptr)
      : socket(std::move(socket_)), sealed(std::move(sealed_)) {}

  UniqueFd socket;
  std::unique_ptr<SealedStream> sealed;  // null: not encrypted
};

class TcpEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<TcpEndpoint>> create(const TcpOptions& options,
                                                     ReceiveBuffers& receive_buffers);
  ~TcpEndpoint() override;
  TcpEndpoint(const TcpEndpoint&) = delete;
  TcpEndpoint& operator=(const TcpEndpoint&) = delete;

  // Writes of all peers go with these from now on.
  void send_checksums(const Checksums& checksums) { checksums_ = &checksums; }

  // Takes a stream. Error: kResourceExhausted at max_peers.
  Result<PeerId> add(TcpStream stream);

  std::size_t post(PeerId peer, std::span<const Write> writes) override;
  std::size_t room(PeerId peer) const override;
  std::size_t poll(std::span<Completion> completions) override;

  struct Taken {
    std::size_t writes = 0;  // that are whole
    bool more = false;       // there may be more to be read now
  };
  // Reads writes of one peer, for an owner who reads later (ReceiveBuffers). REQUIRES: the peer is
  // not paused, and has not been lost; room for one completion.
  Taken read(PeerId peer, std::span<Completion> completions);

  // False also while something is known to be read that poll reads. Who reads later has to know by
  // itself that it must not sleep.
  bool arm() override;
  void disarm() override;
  int wait_fd() const override { return epoll_.get(); }
  void expect(PeerId peer, std::uint32_t arrivals, std::uint64_t bytes) override;
  void pause(PeerId peer, bool paused) override;
  void remove(PeerId peer) override;

 private:
  static constexpr std::size_t kReadsPerPoll = 16;  // frames of one peer before the next's turn

  struct Peer {
    UniqueFd socket;
    PlainStream plain;
    std::unique_ptr<SealedStream> sealed;  // null: plain
    Loss loss = Loss::kNone;
    FrameHeader header = {};   // of the frame that is being received,
    Payload payload = {};      // and where its payload goes
    FrameQueue frames;         // to be sent
    bool wants_write = false;  // the socket was full, and will say when it is not
    bool paused = false;
    bool readable = false;  // there may be something in the socket
    bool ended = false;     // it ends with what is in it: nothing will say so once more
    // Sleeping: payload that is worth a wake-up, and the bytes that the socket now waits for.
    std::uint64_t expected = 0;
    int awaited = 1;

    bool is_lost() const { return loss != Loss::kNone; }
    void await(int bytes);
    struct Read {
      std::size_t bytes = 0;  // 0: there is nothing now, or the peer is lost
      Loss loss = Loss::kNone;
    };
    // Reads what is in the socket, as much as the parts have room for.
    Read read_some(const std::array<iovec, 2>& parts);
  };

  TcpEndpoint(const TcpOptions& options, ReceiveBuffers& receive_buffers, UniqueFd epoll);

  void send(PeerId id, Peer& peer);
  template <typename Stream>
  void send(PeerId id, Peer& peer, Stream& stream);
  void look();
  void announce(PeerId id);
  std::size_t read_ready(std::span<Completion> completions);
  // Reads frames of one peer into `completions`; how many were completed.
  template <typename Stream>
  std::size_t receive(PeerId id, Peer& peer, Stream& stream, std::span<Completion> completions);
  void open_frame(PeerId id, Peer& peer);
  void open_checked_frame(PeerId id, Peer& peer);
  void lose(PeerId id, Loss loss);
  std::size_t drain_reports(std::span<Completion> completions);

  TcpOptions options_;
  ReceiveBuffers& receive_buffers_;
  UniqueFd epoll_;
  std::vector<Peer> peers_;               // fixed size
  bool expects_ = false;                  // something, of some peer
  const Checksums* checksums_ = nullptr;  // of what is sent; null: there are none
  std::vector<PeerId> free_;
  std::vector<PeerId> ready_;  // to be read by poll, in the order of their turns
  std::vector<PeerId> lost_;   // lost, not reported yet
};

}  // namespace phub::transport

// The shared-memory backend: same host, no payload moves.
//
// Each side shares the memory that its writes come from; a write is a 16-byte notice in a ring,
// and an arrival points into the peer's memory. A sleeping reader is woken by one byte on the
// peers' unix socket, which also tells when the other process is gone. Nothing that a peer does to
// its memory, rings or socket can harm more than its own connection.
//
// Unmapping takes milliseconds a gigabyte: whoever must not wait for it keeps mappings of its own
// beside the connection's, and lets them go elsewhere.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/memory/memory.h"
#include "common/transport/shm/channel.h"
#include "common/transport/transport.h"

namespace phub::transport {

// What a connection consists of once both sides have exchanged descriptors.
struct ShmConnection {
  UniqueFd socket;                        // unix stream socket: wake-ups and liveness
  std::shared_ptr<Mapping> channel;       // channel_bytes(capacity)
  std::uint32_t capacity = 0;             // a power of two
  bool core_side = false;                 // reads to_core, writes to_worker
  std::span<const std::byte> own_memory;  // where our writes come from; outlives the peer
  std::shared_ptr<Mapping> peer_memory;   // where its writes come from
};

class ShmEndpoint final : public Endpoint {
 public:
  // `receive_buffers` says where in its peer's memory a write must be, and outlives the endpoint;
  // null: it may be anywhere there.
  static Result<std::unique_ptr<ShmEndpoint>> create(std::uint32_t max_peers,
                                                     ReceiveBuffers* receive_buffers = nullptr);

  Result<PeerId> add(ShmConnection connection);

  std::size_t post(PeerId peer, std::span<const Write> writes) override;
  std::size_t room(PeerId peer) const override;
  std::size_t poll(std::span<Completion> completions) override;
  bool arm() override;
  void disarm() override;
  int wait_fd() const override { return epoll_.get(); }
  void expect(PeerId peer, std::uint32_t arrivals, std::uint64_t) override {
    peers_[peer].expected = arrivals;
  }
  void pause(PeerId peer, bool paused) override { peers_[peer].paused = paused; }
  void remove(PeerId peer) override;

 private:
  struct Ring {
    RingIndexes* indexes = nullptr;
    Notice* notices = nullptr;
  };
  struct Peer {
    ShmConnection connection;
    Ring in;
    Ring out;
    std::uint32_t head = 0;  // our own copies: the shared ones are the peer's to corrupt
    std::uint32_t tail = 0;
    std::uint32_t expected = 1;
    bool closed = false;  // the socket ended; what is in the ring still counts
    bool paused = false;
    bool lost = false;
  };

  ShmEndpoint(std::uint32_t max_peers, UniqueFd epoll, ReceiveBuffers* receive_buffers);

  std::size_t receive(PeerId id, Peer& peer, std::span<Completion> completions);
  // Arrivals that are waiting, or nothing if the peer broke its ring.
  static bool pending(const Peer& peer, std::uint32_t* count);
  void wake(Peer& peer);
  void close(PeerId id);
  void lose(PeerId id, Loss loss);
  void lose_failed();
  void drain_sockets();

  UniqueFd epoll_;
  ReceiveBuffers* receive_buffers_;
  std::vector<Peer> peers_;  // fixed size
  std::vector<PeerId> active_;
  std::vector<PeerId> free_;
  std::vector<Completion> reports_;  // kPeerLost, not reported yet
  std::size_t next_ = 0;             // whose turn it is to be polled first
  std::uint32_t polls_ = 0;
  std::uint32_t faults_ = guarded_faults();  // of the process, that were looked at
};

}  // namespace phub::transport

// The RDMA backend: reliable connections of libibverbs, over InfiniBand or RoCE.
//
// A write is one RDMA write with immediate, from registered memory straight to its place in the
// peer's window; nothing is copied on either side. All queue pairs of an endpoint share one
// completion queue. Work requests are chained, so that a batch costs one doorbell, and only some
// are signaled. The authenticated stream of the set-up stays open: it tells when the other process
// is gone. A peer can write to its own window and nowhere else.
#pragma once

#include <memory>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/transport/transport.h"
#include "common/transport/verbs/connector.h"
#include "common/transport/verbs/departures.h"
#include "common/transport/verbs/report_ring.h"
#include "common/transport/verbs/request_tag.h"
#include "common/transport/verbs/verbs_connection.h"

namespace phub::transport {

// The sender's half of ReceiveBuffers: where in a peer's window a write goes, unless it is
// mirrored.
class Layout {
 public:
  virtual ~Layout() = default;
  virtual std::uint64_t offset(PeerId peer, const Write& write) const = 0;
};

class VerbsEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<VerbsEndpoint>> create(
      std::shared_ptr<const verbs::OpenDevice> device, std::uint32_t max_peers,
      ReceiveBuffers& receive_buffers, const Layout& layout);
  ~VerbsEndpoint() override;
  VerbsEndpoint(const VerbsEndpoint&) = delete;
  VerbsEndpoint& operator=(const VerbsEndpoint&) = delete;

  // Writes of all peers that are not mirrored end with these from now on, which lie in the memory
  // that the connection's own registration has.
  void send_checksums(const Checksums& checksums);

  // Makes the connections that are added here; any thread. All else is the owner's thread's.
  verbs::Connector& connector() { return *connector_; }

  // Posts the receives: before the peer's first write can arrive. Error: kResourceExhausted at
  // max_peers.
  Result<PeerId> add(VerbsConnection connection);
  // Writes to the peer may come from there too. The writes of one post are of one registration.
  // REQUIRES: no write from the source before this one is on its way.
  void use_second_source(PeerId peer, const VerbsSource& source) {
    peers_[peer].connection.second = source;
  }

  std::size_t post(PeerId peer, std::span<const Write> writes) override;
  std::size_t room(PeerId peer) const override;
  std::size_t poll(std::span<Completion> completions) override;
  bool arm() override;
  void disarm() override;
  int wait_fd() const override { return epoll_.get(); }
  void expect(PeerId, std::uint32_t, std::uint64_t) override {}
  void pause(PeerId peer, bool paused) override;
  // Writes that were accepted get out first, in the polls that follow; the peer is forgotten at
  // once.
  void remove(PeerId peer) override;

  // Removed peers whose writes are not out yet: a few milliseconds at most, if somebody asks.
  std::size_t leaving();
  // What is left of removed peers, for a thread that may wait for the device to destroy it; `into`
  // is empty and has room for max_peers.
  void take_ended(std::vector<VerbsConnection>& into) { departures_.take_ended(into); }

 private:
  struct Arrival {
    std::uint32_t immediate;
    std::uint32_t bytes;
  };
  struct Peer {
    VerbsConnection connection;
    verbs::RequestTag tag = 0;  // of its work requests
    std::uint32_t depth = 0;    // writes that may be on their way
    std::uint32_t signal_interval = 1;
    std::uint32_t posted = 0;
    std::uint32_t retired = 0;
    std::uint32_t owed = 0;         // receives to post again
    std::vector<Arrival> deferred;  // while paused; room for every receive
    bool closed = false;            // the stream ended; what is in the queue still counts
    bool paused = false;
    bool lost = false;
  };
  struct Taken {
    std::size_t from_queue = 0;
    std::size_t arrived = 0;
  };

  VerbsEndpoint(std::unique_ptr<verbs::Connector> connector, std::uint32_t max_peers,
                ReceiveBuffers& receive_buffers, const Layout& layout);
  Taken take(std::span<Completion> completions);
  std::size_t take_aside();
  // Those that are owed. The device's error, 0: none.
  int post_receives(Peer& peer);
  bool on_arrived(PeerId id, Peer& peer, Arrival arrival, Completion& completion);
  void post_chain(PeerId id, Peer& peer, std::span<const Write> writes);
  void lose(PeerId id, Loss loss);
  void look_at_streams();

  std::unique_ptr<verbs::Connector> connector_;
  ibv_cq& queue_;  // the connector's
  ReceiveBuffers& receive_buffers_;
  const Layout& layout_;
  UniqueFd epoll_;
  std::vector<Peer> peers_;  // fixed size
  std::vector<PeerId> free_;
  verbs::ReportRing reports_;
  verbs::Departures departures_;
  std::uint32_t closing_ = 0;  // peers that are closed and not reported lost
  std::uint32_t polls_ = 0;
  std::uint32_t connections_ = 0;  // so far: the generations of tags
  // Prebuilt and linked; post patches them.
  std::vector<ibv_send_wr> sends_;
  std::vector<ibv_sge> sources_;          // two of each: what is written, and its checksum
  const Checksums* checksums_ = nullptr;  // of what is sent; null: there are none
  std::vector<ibv_recv_wr> receives_;
};

}  // namespace phub::transport

// The endpoints of an Exchange: of each, which connection a peer is, and where its writes go, both
// ways. A transport more is one function here.
//
// Set-up, then the Exchange's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/exchange/core_connection.h"
#include "common/exchange/due_replies.h"
#include "common/protocol/window_layout.h"
#include "common/transport/shm/shm_endpoint.h"
#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/verbs/verbs_endpoint.h"

namespace phub::client {

class EndpointLane : public transport::ReceiveBuffers,
                     public transport::Layout,
                     public transport::Checksums {
 public:
  // `checksums`, by chunk, of what is pushed; null: there are none.
  EndpointLane(const DueReplies& due, std::uint32_t peers_max, const std::uint32_t* checksums)
      : due_(due), peers_(peers_max), checksums_(checksums) {}

  struct Peer {
    CoreConnection* connection = nullptr;
    WindowLayout landing;  // verbs: where pushes go
  };
  Peer& at(transport::PeerId peer) { return peers_[peer]; }
  std::span<const Peer> peers() const { return peers_; }
  // What connections post to, and the transport's own behind it: often the same.
  transport::Endpoint& endpoint() const { return front_ ? *front_ : *endpoint_; }
  transport::Endpoint& own() const { return *endpoint_; }
  // Whose buffers and layout this is.
  void use(std::unique_ptr<transport::Endpoint> endpoint) { endpoint_ = std::move(endpoint); }
  // REQUIRES: use was called, and there is no peer.
  Status put_in_front(const transport::EndpointFront& front);

  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  void release(transport::PeerId, std::byte*) final {}
  std::uint64_t offset(transport::PeerId peer, const transport::Write& write) const override;
  const std::uint32_t* checksum(transport::PeerId peer, std::uint32_t immediate) const override;

 private:
  const DueReplies& due_;
  std::vector<Peer> peers_;
  const std::uint32_t* checksums_;
  std::unique_ptr<transport::Endpoint> endpoint_;  // uses the above
  std::unique_ptr<transport::Endpoint> front_;     // of it; null: nothing is there
};

class Lanes {
 public:
  // `due` outlives it.
  Lanes(const DueReplies& due, std::uint32_t connections) : due_(due), connections_(connections) {}

  // By chunk, of what is pushed. REQUIRES: before the first endpoint.
  void use_checksums(const std::uint32_t* checksums) { checksums_ = checksums; }
  // Replies are to come on their chunks' streams. REQUIRES: before the first endpoint.
  void expect_streams() { has_streams_ = true; }
  // The endpoint of the transport, created by the first call; of verbs, the device's.
  Result<transport::TcpEndpoint*> tcp(const transport::EndpointFront& front = {});
  Result<transport::ShmEndpoint*> shm();
  Result<transport::VerbsEndpoint*> verbs_on(
      const std::shared_ptr<const transport::verbs::OpenDevice>& device);

  // A second source of what is pushed, for every verbs connection, with the key that `key_on` has
  // for its device.
  void use_verbs_source(
      std::span<const std::byte> bytes,
      const std::function<std::uint32_t(const transport::verbs::OpenDevice&)>& key_on);

  // REQUIRES: the endpoint is one of these.
  EndpointLane& of(const transport::Endpoint& endpoint) const;
  std::span<const std::unique_ptr<EndpointLane>> all() const { return lanes_; }
  std::vector<transport::Endpoint*> endpoints() const;

 private:
  template <typename Endpoint, typename IsWanted, typename Create>
  Result<Endpoint*> find_or_create(const IsWanted& is_wanted, const Create& create);

  const DueReplies& due_;
  std::uint32_t connections_;
  const std::uint32_t* checksums_ = nullptr;
  bool has_streams_ = false;
  std::vector<std::unique_ptr<EndpointLane>> lanes_;
};

}  // namespace phub::client

// Where the writes of one-sided transports are, on a core: those that arrive, in the worker's
// window (verbs) or in the memory that it shares (shm); those that leave over verbs, in the
// worker's parameters. Belongs to the core's thread.
#pragma once

#include <memory>
#include <vector>

#include "common/transport/verbs/verbs_endpoint.h"
#include "server/chunks/connection.h"

namespace phub::server {

class LandingPlaces final : public transport::ReceiveBuffers, public transport::Layout {
 public:
  // By peer; outlives this.
  explicit LandingPlaces(const std::vector<Connection*>& connections) : connections_(connections) {}

  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  void release(transport::PeerId, std::byte*) override {}
  std::uint64_t offset(transport::PeerId peer, std::uint32_t immediate) const override;

 private:
  const std::vector<Connection*>& connections_;
};

}  // namespace phub::server

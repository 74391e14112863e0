// Where one-sided writes go, on a core: those that arrive, into the worker's window; those that
// leave, into the worker's parameters. Belongs to the core's thread.
#pragma once

#include <memory>
#include <vector>

#include "common/transport/verbs/verbs_endpoint.h"
#include "server/connection.h"

namespace phub::server {

class VerbsPlaces final : public transport::Placement, public transport::Layout {
 public:
  // By peer; outlives this.
  explicit VerbsPlaces(const std::vector<Connection*>& connections) : connections_(connections) {}

  std::byte* place(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  void abandon(transport::PeerId, std::byte*) override {}
  std::uint64_t offset(transport::PeerId peer, std::uint32_t immediate) const override;

 private:
  const std::vector<Connection*>& connections_;
};

}  // namespace phub::server

// The one-sided transports of a core. Pushes land in the worker's window (verbs) or in the memory
// that it shares (shm), and are taken from there. Belongs to the core's thread.
#pragma once

#include <memory>

#include "common/transport/shm/shm_endpoint.h"
#include "common/transport/verbs/verbs_endpoint.h"
#include "server/core/lane.h"

namespace phub::server {

class WindowLane : public Lane {
 public:
  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  void release(transport::PeerId, std::byte*) override {}

 protected:
  using Lane::Lane;

 private:
  static std::byte* place_of_reply(const Connection& connection, std::uint32_t immediate,
                                   std::uint32_t bytes);
};

class ShmLane final : public WindowLane {
 public:
  static Result<std::unique_ptr<ShmLane>> create(std::uint32_t max_connections);
  transport::ShmEndpoint& endpoint() const { return *shm_; }

 private:
  using WindowLane::WindowLane;

  std::unique_ptr<transport::ShmEndpoint> shm_;
};

class VerbsLane final : public WindowLane, public transport::Layout {
 public:
  static Result<std::unique_ptr<VerbsLane>> create(
      std::uint32_t max_connections, std::shared_ptr<const transport::verbs::OpenDevice> device);
  transport::VerbsEndpoint& endpoint() const { return *verbs_; }

  // Queue pairs, and the memory behind them.
  void destroy_ended(CoreThread& thread) override;
  std::uint64_t offset(transport::PeerId peer, const transport::Write& write) const override;

 private:
  using WindowLane::WindowLane;

  std::unique_ptr<transport::VerbsEndpoint> verbs_;
};

}  // namespace phub::server

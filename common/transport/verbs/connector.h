// Makes the connections of one endpoint: queue pairs whose completions all go to the endpoint's
// queue. Set-up only.
//
// Completions that find the queue full are an error that ends every connection, so it is grown
// before anything may need the room.
//
// prepare and connect: any thread, also while the endpoint polls the queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "common/base/status.h"
#include "common/transport/verbs/device/objects.h"
#include "common/transport/verbs/open_device.h"
#include "common/transport/verbs/verbs_connection.h"

namespace phub::transport::verbs {

class Connector {
 public:
  static Result<std::unique_ptr<Connector>> create(std::shared_ptr<const OpenDevice> device);

  // A queue pair for up to `outstanding` writes in each direction, of which a window is on its way
  // at a time; `own` is for the peer. Errors name the device's limit.
  Result<VerbsConnection> prepare(const VerbsRegions& regions, std::uint32_t outstanding);
  // Connects it to `connection.peer`.
  Status connect(const VerbsConnection& connection) const;

  const OpenDevice& device() const { return *device_; }
  // For the endpoint, which has the connections: the queue, what wakes who sleeps on it, and how
  // many completions the connections may need at once.
  ibv_cq& queue() const { return *queue_; }
  ibv_comp_channel& channel() const { return *channel_; }
  std::uint32_t reserved() const { return *reserved_; }

 private:
  explicit Connector(std::shared_ptr<const OpenDevice> device) : device_(std::move(device)) {}
  Result<std::shared_ptr<void>> reserve(std::uint32_t entries);

  const std::shared_ptr<const OpenDevice> device_;
  CompletionChannel channel_;
  std::mutex mutex_;  // of the queue's size
  CompletionQueue queue_;
  std::shared_ptr<std::atomic<std::uint32_t>> reserved_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
};

}  // namespace phub::transport::verbs

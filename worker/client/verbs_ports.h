// This worker's RDMA ports: which one reaches a server's, and its memory registered there.
// Set-up only, one thread; what it hands out lives on its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/memory/exported_memory.h"
#include "common/transport/verbs/device/port_choice.h"
#include "common/transport/verbs/registered.h"
#include "worker/client/rendezvous.h"

namespace phub::client {

class VerbsPorts {
 public:
  // `devices`: "mlx5_0" or "mlx5_0:2"; empty: all. Error: kNotFound with the reasons when no port
  // can be used.
  static Result<std::unique_ptr<VerbsPorts>> create(const std::vector<std::string>& devices,
                                                    std::optional<std::uint32_t> gid_index);

  // A port on the server port's fabric, opened, with the GID that reaches it; the connections of a
  // server's cores take turns. Error: kNotFound with the reasons.
  Result<std::shared_ptr<const transport::verbs::OpenDevice>> towards(const RdmaPort& peer,
                                                                      std::uint32_t core);

  // `source`: what pushes come from; `window`: where replies go. Registered once for each device.
  Result<transport::VerbsRegions> memory_on(
      const std::shared_ptr<const transport::verbs::OpenDevice>& device,
      std::span<std::byte> source, std::span<std::byte> window);

  // `gpu` as a second source on every device that has memory registered, or on none. Returns how
  // the devices read it, in words. Error: register_gpu's, of the first device that cannot.
  Result<std::string> add_source(const ExportedMemoryPointer& gpu);
  // Of that source there. REQUIRES: add_source succeeded, and memory_on was called for the device.
  std::uint32_t source_key_on(const transport::verbs::OpenDevice& device) const;

 private:
  VerbsPorts() = default;

  std::optional<std::uint32_t> gid_index_;
  std::vector<transport::verbs::PortChoice> choices_;
  std::map<std::string, std::shared_ptr<const transport::verbs::OpenDevice>> opened_;
  std::map<const transport::verbs::OpenDevice*, std::shared_ptr<transport::verbs::Registered>>
      registered_;
};

}  // namespace phub::client

#include "worker/client/verbs_ports.h"

#include "common/transport/verbs/device/route.h"
#include "common/transport/verbs/gpu_source.h"

namespace phub::client {

namespace verbs = transport::verbs;

Result<std::unique_ptr<VerbsPorts>> VerbsPorts::create(const std::vector<std::string>& devices,
                                                       std::optional<std::uint32_t> gid_index) {
  PHUB_ASSIGN_OR_RETURN(const auto found, verbs::list_devices());
  std::unique_ptr<VerbsPorts> ports(new VerbsPorts());
  ports->gid_index_ = gid_index;
  PHUB_ASSIGN_OR_RETURN(ports->choices_, verbs::choose_ports(found, devices));
  return ports;
}

Result<std::shared_ptr<const verbs::OpenDevice>> VerbsPorts::towards(const RdmaPort& peer,
                                                                     std::uint32_t core) {
  PHUB_ASSIGN_OR_RETURN(
      const verbs::Route route,
      verbs::choose_route(choices_, {"the server's " + peer.device, peer.link_layer, peer.gid},
                          gid_index_, core));
  const std::string& name = route.choice.device.name;
  const std::uint8_t port = route.choice.port.number;
  const auto index = static_cast<std::uint8_t>(route.gid.index);
  auto& opened =
      opened_[name + " port " + std::to_string(port) + " " + std::to_string(route.gid.index)];
  if (!opened) {
    PHUB_ASSIGN_OR_RETURN(opened, verbs::open_device(name, port, index));
  }
  return opened;
}

Result<transport::VerbsRegions> VerbsPorts::memory_on(
    const std::shared_ptr<const verbs::OpenDevice>& device, std::span<std::byte> source,
    std::span<std::byte> window) {
  std::shared_ptr<verbs::Registered>& registered = registered_[device.get()];
  if (!registered) {
    PHUB_ASSIGN_OR_RETURN(registered, verbs::register_both(device, source, window));
  }
  return verbs::regions_of(registered);
}

Result<std::string> VerbsPorts::add_source(const ExportedMemoryPointer& gpu) {
  std::vector<verbs::GpuSource> sources;
  std::string how;
  for (const auto& [device, registered] : registered_) {
    PHUB_ASSIGN_OR_RETURN(verbs::GpuSource source, verbs::register_gpu(*registered->domain, *gpu));
    how += (how.empty() ? "" : "; ") + device->name + " by " + verbs::name_of(source.path);
    if (!source.refused.empty()) how += " (" + source.refused + ")";
    sources.push_back(std::move(source));
  }
  auto source = sources.begin();
  for (const auto& [device, registered] : registered_) {
    registered->gpu_source = std::move(source++->registration);
    registered->gpu = gpu;
  }
  return how;
}

std::uint32_t VerbsPorts::source_key_on(const verbs::OpenDevice& device) const {
  return registered_.at(&device)->gpu_source->lkey;
}

}  // namespace phub::client

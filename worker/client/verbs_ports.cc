#include "worker/client/verbs_ports.h"

#include "common/transport/verbs/gid.h"

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
  std::string reasons;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const verbs::PortChoice& choice = choices_[(core + i) % choices_.size()];
    const std::string where = choice.device.name + " port " + std::to_string(choice.port.number);
    if (choice.port.link_layer != peer.link_layer) {
      reasons += "; " + where + " is " + verbs::name_of(choice.port.link_layer);
      continue;
    }
    const auto gid = verbs::choose_gid(choice.port, peer.gid, gid_index_);
    if (!gid) {
      reasons += "; " + where + ": " + gid.error().message();
      continue;
    }
    const std::string name = where + " " + std::to_string(gid->index);
    if (const auto found = opened_.find(name); found != opened_.end()) return found->second;
    PHUB_ASSIGN_OR_RETURN(auto device, verbs::open_device(choice.device.name, choice.port.number,
                                                          static_cast<std::uint8_t>(gid->index)));
    opened_[name] = device;
    return device;
  }
  return Status(Code::kNotFound, "no RDMA port here reaches the server's " + peer.device + " (" +
                                     verbs::name_of(peer.link_layer) + ", " +
                                     verbs::to_string(peer.gid) + ")" + reasons);
}

Result<transport::VerbsMemory> VerbsPorts::memory_on(
    const std::shared_ptr<const verbs::OpenDevice>& device, std::span<std::byte> source,
    std::span<std::byte> window) {
  std::shared_ptr<verbs::Registered>& registered = registered_[device.get()];
  if (!registered) {
    PHUB_ASSIGN_OR_RETURN(registered, verbs::register_both(device, source, window));
  }
  return verbs::memory_of(registered);
}

}  // namespace phub::client

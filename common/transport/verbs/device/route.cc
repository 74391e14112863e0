#include "common/transport/verbs/device/route.h"

#include "common/transport/verbs/device/gid.h"

namespace phub::transport::verbs {

Result<Route> choose_route(const std::vector<PortChoice>& choices, const PeerPort& peer,
                           std::optional<std::uint32_t> forced_index, std::size_t first) {
  std::string reasons;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const PortChoice& choice = choices[(first + i) % choices.size()];
    const std::string where = choice.device.name + " port " + std::to_string(choice.port.number);
    if (choice.port.link_layer != peer.link_layer) {
      reasons += "; " + where + " is " + name_of(choice.port.link_layer);
      continue;
    }
    const auto gid = choose_gid(choice.port, peer.gid, forced_index);
    if (gid) return Route{choice, *gid};
    reasons += "; " + where + ": " + gid.error().message();
  }
  return Status(Code::kNotFound, "no RDMA port here reaches " + peer.name + " (" +
                                     name_of(peer.link_layer) + ", " + to_string(peer.gid) + ")" +
                                     reasons);
}

}  // namespace phub::transport::verbs

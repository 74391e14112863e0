// Which of this machine's ports reaches a peer's, and with which of its GIDs.
//
// A pure function of values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/transport/verbs/device/port_choice.h"

namespace phub::transport::verbs {

// What a peer has told of the port that it uses.
struct PeerPort {
  std::string name;  // for messages: "the server's mlx5_0"
  LinkLayer link_layer = LinkLayer::kEthernet;
  Gid gid;
};

struct Route {
  PortChoice choice;
  Gid gid;
};

// Of `choices` the first that is on the peer's fabric: of its link layer, with a GID that gid.h's
// criteria allow. The search begins at the index `first` modulo their number, and goes around.
// Error: kNotFound with the reason of every port.
Result<Route> choose_route(const std::vector<PortChoice>& choices, const PeerPort& peer,
                           std::optional<std::uint32_t> forced_index, std::size_t first = 0);

}  // namespace phub::transport::verbs

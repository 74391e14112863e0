// The verbs backend on the executable's devices: on the first one, and between the first two.
#include "tests/support/transports/rdma_devices.h"
#include "tests/support/transports/verbs_pair.h"

namespace phub::transport {

std::vector<NamedPair> endpoint_pairs() {
  const auto pair = [](std::size_t a, std::size_t b) {
    return NamedPair{"verbs, " + rdma_devices()[a]->name + " to " + rdma_devices()[b]->name,
                     [a, b] { return verbs_pair(rdma_devices()[a], rdma_devices()[b]); }};
  };
  std::vector<NamedPair> pairs = {pair(0, 0)};
  if (rdma_devices().size() > 1) pairs.push_back(pair(0, 1));
  return pairs;
}

}  // namespace phub::transport

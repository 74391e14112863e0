// The verbs backend over a libibverbs that lives in the process.
#include "tests/support/verbs_pair.h"

namespace phub::transport {

std::vector<NamedPair> endpoint_pairs() {
  return {{"verbs, fake", [] {
             const auto device = *verbs::open_device("fake0", 1, 0);
             return verbs_pair(device, device);
           }}};
}

}  // namespace phub::transport

// On the fake libibverbs, or where there is a device.
#include "tests/support/transports/tested_transports.h"

namespace phub {

const std::vector<std::string>& tested_transports() {
  static const std::vector<std::string> kTransports = {"verbs"};
  return kTransports;
}

}  // namespace phub

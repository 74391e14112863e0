// What every machine has.
#include "tests/support/transports/tested_transports.h"

namespace phub {

const std::vector<std::string>& tested_transports() {
  static const std::vector<std::string> kTransports = {"shm", "tcp"};
  return kTransports;
}

}  // namespace phub

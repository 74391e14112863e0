// What every machine has.
#include "tests/support/tested_transports.h"

namespace phub {

const std::vector<std::string>& tested_transports() {
  static const std::vector<std::string> transports = {"shm", "tcp"};
  return transports;
}

}  // namespace phub

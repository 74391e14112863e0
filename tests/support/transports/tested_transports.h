// Which transports an executable's tests run over; each links a definition.
#pragma once

#include <string>
#include <vector>

namespace phub {

const std::vector<std::string>& tested_transports();

}  // namespace phub

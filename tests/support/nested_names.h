// Names of racks in rows and sites, for jobs of shape `nested`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phub::testing {

// Two racks a row, two rows a site: "s0/r0/0", "s0/r0/1", "s0/r1/2", ...
inline std::vector<std::string> nested_names(std::uint32_t racks) {
  std::vector<std::string> names;
  for (std::uint32_t rack = 0; rack < racks; ++rack) {
    names.push_back("s" + std::to_string(rack / 4) + "/r" + std::to_string(rack / 2) + "/" +
                    std::to_string(rack));
  }
  return names;
}

}  // namespace phub::testing

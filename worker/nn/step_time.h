// Where a device's time goes, step by step. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phub::nn {

struct StepTime {
  std::string name;         // "layer1.0.conv1 forward"
  std::string pass;         // "forward", "backward"
  double seconds = 0.0;     // median
  std::uint64_t bytes = 0;  // of what the step reads and writes, each array once
  std::uint64_t flops = 0;  // of convolutions and products; a multiply-add is two
};

struct DeviceProfile {
  std::vector<StepTime> steps;    // in their order
  double bytes_per_second = 0.0;  // of a copy within the device's memory: read and written
};

}  // namespace phub::nn

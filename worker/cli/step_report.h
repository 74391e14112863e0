// A device's steps for people and for programs. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "worker/nn/step_time.h"

namespace phub {

struct StepSubject {
  std::string model;
  std::string compute_type;
  std::uint32_t batch = 0;
  std::uint32_t passes = 0;
  double peak_flops = 0.0;  // of the device, a second; 0: not known
};

// A row for each step, in their order, then the passes. Roof: the time that its bytes, at the speed
// of a copy on the device, and its operations, at the peak, need at least, over the step's.
std::string step_table(const StepSubject& subject, const nn::DeviceProfile& profile);

// The same as an object, with the steps by name.
nlohmann::ordered_json step_json(const StepSubject& subject, const nn::DeviceProfile& profile);

}  // namespace phub

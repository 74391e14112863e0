// A profile for people, for programs and for Perfetto. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "worker/train/measure/profile.h"

namespace phub {

// What was profiled.
struct ProfileSubject {
  std::string model;
  std::string backend;
  std::string compute_type;
  std::string transport;  // "local": without servers
  std::uint32_t batch = 0;
  std::uint32_t threads = 0;
  std::uint32_t workers = 1;
  std::uint32_t steps = 0;
};

// A row for each layer, in forward order; then the sums, the memory and the utilisation.
std::string profile_table(const ProfileSubject& subject, const train::Profile& profile);

// The same as an object. `layers` is what a simulation needs: in forward order each layer's
// forward_seconds and backward_seconds, and key_bytes, the fp32 bytes of each of its gradients,
// which may be sent when its backward is done and are needed by its next forward.
nlohmann::ordered_json profile_json(const ProfileSubject& subject, const train::Profile& profile);

// A trace in Chrome's JSON format: the timed steps, one after the other, with a track for the
// layers (forward, backward, loss) and one for the exchange (push, wait). The object of
// profile_json is in it as "phub_profile", which viewers leave alone.
std::string profile_trace(const ProfileSubject& subject, const train::Profile& profile);

}  // namespace phub

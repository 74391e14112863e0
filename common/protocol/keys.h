// The keys of a job: what is exchanged, by name.
#pragma once

#include <cstdint>
#include <string>

namespace phub {

using KeyId = std::uint32_t;  // position in the job's list of keys, which is in forward order

struct KeySpec {
  std::string name;                // unique in the job
  std::uint64_t elements = 0;      // > 0
  float weight_decay = 0.0F;       // for the rules that decay
  bool exclude_from_lars = false;  // lars, lamb: at trust 1 (biases, batch normalisation)
  bool operator==(const KeySpec&) const = default;
};

}  // namespace phub

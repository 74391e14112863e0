// How a batch is divided among workers of unequal speed.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace phub::train {

// Parts of `global` images in proportion to the weights, each a multiple of `unit`, whose sum is
// `global`. REQUIRES: `unit` divides `global`. Error: kInvalidArgument: a worker would have none.
Result<std::vector<std::uint32_t>> divide_batch(std::span<const float> weights,
                                                std::uint64_t global, std::uint32_t unit = 1);

}  // namespace phub::train

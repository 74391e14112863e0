// How a batch is divided among workers of unequal speed.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace phub::train {

// Parts of `global` images in proportion to the weights, whole ones, whose sum is `global`. Error:
// kInvalidArgument: a worker would have none.
Result<std::vector<std::uint32_t>> divide_batch(std::span<const float> weights,
                                                std::uint64_t global);

}  // namespace phub::train

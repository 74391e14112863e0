// A stage of data.progressive, as a configuration says it. A value.
#pragma once

#include <cstdint>

namespace phub::train {

// Images of `side` x `side` pixels in the epochs before `end_epoch`, counted from 0, that no
// earlier stage has.
struct StageOptions {
  std::uint32_t side = 0;
  std::uint64_t end_epoch = 0;
};

}  // namespace phub::train

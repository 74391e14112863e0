// Time that passes only where somebody looks at it: turns and prices follow from what is done, on
// every machine.
#pragma once

#include "common/base/ticks.h"

namespace phub::testing {

struct SlowClock final : TickSource {
  explicit SlowClock(std::uint64_t nanoseconds) : of_a_look(nanoseconds) {}
  std::uint64_t now() override { return time += of_a_look; }
  std::uint64_t of_a_look;
  std::uint64_t time = 0;
};

}  // namespace phub::testing

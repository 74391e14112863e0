// How a thread of the data path waits for work: spin, then yield its CPU, then sleep on an event.
#pragma once

#include <cstdint>

namespace phub {

struct Waiting {
  std::uint32_t spin_iterations = 50;   // polls in a row without yielding
  std::uint32_t yield_iterations = 20;  // polls with a sched_yield in between
  bool sleep = true;                    // false: poll for ever
};

}  // namespace phub

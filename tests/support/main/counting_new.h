// How often memory is allocated: counting_new.cc replaces operator new in the program.
#pragma once

#include <atomic>
#include <cstdint>

namespace phub::testing {

extern std::atomic<bool> counting;              // allocations count while it is true
extern std::atomic<std::uint64_t> allocations;  // but for the fake device's own

}  // namespace phub::testing

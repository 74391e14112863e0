// How long a test waits for what must come before it gives up.
#pragma once

#include <chrono>

namespace phub::testing {

// It bounds a test that hangs, never how fast a machine has to be.
inline constexpr std::chrono::milliseconds kHangGuard{60'000};

}  // namespace phub::testing

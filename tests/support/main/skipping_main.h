// For tests that need what not every machine has; their main is skipping_main.cc.
#pragma once

#include <string>

namespace phub::testing {

// Defined by the test: what this machine lacks. Empty: it has all, and the test runs; else ctest
// shows it as skipped.
std::string missing();

}  // namespace phub::testing

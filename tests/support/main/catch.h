// Catch2 without its implementation, which is compiled once (catch.cc).
#pragma once

namespace phub::testing {

// Catch2's main. Returns its exit status.
int run_tests(int argc, const char* const argv[]);

}  // namespace phub::testing

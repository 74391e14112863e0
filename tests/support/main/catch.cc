#define CATCH_CONFIG_RUNNER
#include "tests/support/main/catch.h"

#include <catch2/catch.hpp>

namespace phub::testing {

int run_tests(int argc, const char* const argv[]) { return Catch::Session().run(argc, argv); }

}  // namespace phub::testing

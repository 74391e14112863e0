#include "tests/support/skipping_main.h"

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  const std::string missing = phub::testing::missing();
  if (missing.empty()) return Catch::Session().run(argc, argv);
  std::printf("skipped: %s\n", missing.c_str());
  return kSkipped;
}

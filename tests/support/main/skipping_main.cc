#include "tests/support/main/skipping_main.h"

#include <cstdio>

#include "tests/support/main/catch.h"

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  const std::string missing = phub::testing::missing();
  if (missing.empty()) return phub::testing::run_tests(argc, argv);
  std::printf("skipped: %s\n", missing.c_str());
  return kSkipped;
}

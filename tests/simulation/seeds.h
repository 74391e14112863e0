// The command line of a simulation: [--seeds COUNT] [--first SEED], or --seed SEED.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace phub::simulation {

// `run`: what went wrong with a seed, or empty. The process's exit status.
template <typename Run>
int run_seeds(int argc, char** argv, Run run) {
  std::uint64_t first = 1;
  std::uint64_t count = 100;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seeds") == 0) {
      count = value;
    } else if (std::strcmp(argv[i], "--first") == 0) {
      first = value;
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      first = value;
      count = 1;
    }
  }
  int violations = 0;
  for (std::uint64_t seed = first; seed < first + count && violations < 10; ++seed) {
    const std::string wrong = run(seed);
    if (wrong.empty()) continue;
    ++violations;
    std::printf("VIOLATION with --seed %llu: %s\n", static_cast<unsigned long long>(seed),
                wrong.c_str());
  }
  std::printf("%llu seeds from %llu: %d violations\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(first), violations);
  return violations == 0 ? 0 : 1;
}

}  // namespace phub::simulation

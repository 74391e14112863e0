// Rounds of one core, driven from one thread, for counting instructions: run_once_test.py runs it
// under callgrind. Usage: run_once_rounds shm|verbs ROUNDS; prints the pushes.
#include <cstdio>
#include <cstdlib>

#include "tests/support/server/core_rig.h"

int main(int argc, char** argv) {
  const std::string transport = argc == 3 ? argv[1] : "";
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((transport != "shm" && transport != "verbs") || rounds < 1) {
    std::fprintf(stderr, "usage: run_once_rounds shm|verbs ROUNDS\n");
    return 2;
  }
  phub::testing::CoreRig rig(transport);
  for (int i = 0; i < rounds; ++i) rig.round();
  std::printf("%d\n", rounds * static_cast<int>(phub::testing::CoreRig::kWorkers *
                                                phub::testing::CoreRig::kChunks));
  return 0;
}

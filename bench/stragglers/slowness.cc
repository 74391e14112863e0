#include "bench/stragglers/slowness.h"

#include <random>

namespace phub::bench::stragglers {

double compute_of(const Slowness& slowness, std::uint32_t worker, std::uint32_t workers,
                  std::uint64_t round, double seconds) {
  if (slowness.kind == "none") return seconds;
  std::mt19937_64 random(round);
  if (slowness.kind == "moving") {
    const bool is_slow = random() % workers == worker;
    return is_slow ? seconds * slowness.factor : seconds;
  }
  if (worker + 1 != workers) return seconds;
  if (slowness.kind == "slow") return seconds * slowness.factor;
  const bool sleeps = std::uniform_real_distribution<double>()(random) < slowness.chance;
  return sleeps ? seconds + slowness.sleep : seconds;
}

}  // namespace phub::bench::stragglers

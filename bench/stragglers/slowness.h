// Who is how slow, and when: the same in every run. Pure function; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace phub::bench::stragglers {

// none; slow: the last worker always; moving: in each round one of all, by chance; sleep: the last
// worker, in some rounds.
inline constexpr std::string_view kSlownessKinds[] = {"none", "slow", "moving", "sleep"};

struct Slowness {
  std::string kind = "sleep";  // one of kSlownessKinds
  double factor = 2.0;         // of slow and moving: compute takes so many times as long
  double chance = 0.2;         // of sleep: in so many of its rounds
  double sleep = 0.1;          // of sleep: seconds more
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Slowness, kind, factor, chance, sleep)

// Seconds that a worker of so many computes for in its round, where others compute for `seconds`.
// REQUIRES: a kind of kSlownessKinds.
double compute_of(const Slowness& slowness, std::uint32_t worker, std::uint32_t workers,
                  std::uint64_t round, double seconds);

}  // namespace phub::bench::stragglers

// The only source of chance in a simulation: the same seed, the same run.
#pragma once

#include <cstdint>
#include <random>

namespace phub::simulation {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // 0 .. below - 1. REQUIRES: below > 0.
  std::uint32_t below(std::uint32_t below) { return static_cast<std::uint32_t>(engine_() % below); }
  std::uint32_t between(std::uint32_t first, std::uint32_t last) {
    return first + below(last - first + 1);
  }
  bool one_in(std::uint32_t times) { return below(times) == 0; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace phub::simulation

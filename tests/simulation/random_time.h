// Time that passes where a core looks at it: some microseconds, now and then a long while.
#pragma once

#include "common/base/ticks.h"
#include "tests/simulation/random.h"

namespace phub::simulation {

class RandomTime final : public TickSource {
 public:
  explicit RandomTime(std::uint64_t seed) : random_(seed) {}
  std::uint64_t now() override {
    return time_ += random_.one_in(500) ? 200'000 : random_.between(100, 8000);
  }

 private:
  Random random_;
  std::uint64_t time_ = 1;
};

}  // namespace phub::simulation

// Changes of parameters that several threads make without locks.
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>
#include <vector>

#include "kernels/hogwild.h"

namespace phub::kernels {

TEST_CASE("a step of sgd and one of elastic are what the rules say") {
  std::vector<float> shared = {8.0F, -4.0F};
  const std::vector<float> own = {2.0F, 6.0F};
  hogwild_sgd(shared, own.data(), {.rate = 0.5F, .gradient_scale = 0.25F, .weight_decay = 0.125F});
  CHECK(shared == std::vector<float>{8.0F - 0.5F * 1.5F, -4.0F - 0.5F * 1.0F});
  shared = {8.0F, -4.0F};
  hogwild_elastic(shared, own.data(), 0.25F);
  CHECK(shared == std::vector<float>{6.5F, -1.5F});
}

TEST_CASE("of several threads' changes some may be lost, and none is torn or made twice") {
  constexpr int kThreads = 4;
  constexpr int kSteps = 500;
  std::vector<float> shared(1000, 0.0F);
  const std::vector<float> one(shared.size(), -1.0F);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int step = 0; step < kSteps; ++step) hogwild_sgd(shared, one.data(), {.rate = 1.0F});
      });
    }
  }
  for (const float sum : shared) {
    REQUIRE(sum == std::floor(sum));
    REQUIRE(sum >= 1.0F);
    REQUIRE(sum <= kThreads * kSteps);
  }
}

}  // namespace phub::kernels

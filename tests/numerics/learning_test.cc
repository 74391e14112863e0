// LeNet on the bundled MNIST images.
#include <catch2/catch.hpp>

#include "worker/train/session.h"

namespace phub::train {
namespace {

TEST_CASE("LeNet learns the bundled MNIST images: after 100 steps it knows nine of ten digits") {
  const SessionOptions options{.data = {.path = PHUB_MNIST_PATH},
                               .update = {.schedule = {.learning_rate = 0.02F, .warmup_steps = 20}},
                               .epochs = 1,
                               .max_steps = 100};
  const auto result = run_session(
      options,
      [](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<GradientExchange>> {
        return make_local_exchange(keys, RuleKind::kMomentum);
      },
      [] { return false; });
  REQUIRE(result);
  REQUIRE(result->test_accuracy > 0.9);
}

}  // namespace
}  // namespace phub::train

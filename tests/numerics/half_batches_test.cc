// What the oracle says, without a server: averaged gradients of half batches are those of the
// whole.
#include <catch2/catch.hpp>

#include "kernels/reduce.h"
#include "tests/numerics/training_worker.h"
#include "worker/data/dataset.h"

namespace phub::train {
namespace {

constexpr std::uint32_t kHalfBatch = 32;
constexpr std::uint64_t kHalfSteps = 20;

// One end of a pair: keeps gradients until exchange() has both.
class PairEnd : public GradientExchange {
 public:
  PairEnd(std::uint32_t index, GradientExchange& gradients, GradientExchange& parameters)
      : GradientExchange({.worker_index = index,
                          .workers = 2,
                          .transport = "test",
                          .state_at = parameters.facts().state_at}),
        gradients_(gradients),
        parameters_(parameters) {}

  std::span<float> gradient(KeyId key) override { return gradients_.gradient(key); }
  std::span<const float> parameter(KeyId key) const override { return parameters_.parameter(key); }
  Status initialise() override {
    if (&gradients_ == &parameters_) return parameters_.initialise();
    return {};
  }
  Status set_hyper(const Hyper& hyper) override { return parameters_.set_hyper(hyper); }
  Status push(KeyId) override { return {}; }
  Status wait(KeyId) override { return {}; }

 private:
  GradientExchange& gradients_;
  GradientExchange& parameters_;
};

TEST_CASE("Two half batches equal one whole batch within 1e-5, step by step") {
  const auto data = data::load_idx(PHUB_MNIST_PATH);
  REQUIRE(data);
  const auto alone = train_alone(*data, 2 * kHalfBatch, kHalfSteps);
  REQUIRE(alone);
  const auto first_gradients = make_local_exchange(lenet_keys(), RuleKind::kMomentum);
  const auto second_gradients = make_local_exchange(lenet_keys(), RuleKind::kMomentum);
  PairEnd first_end(0, *first_gradients, *first_gradients);
  PairEnd second_end(1, *second_gradients, *first_gradients);
  const auto first = TrainingWorker::create(
      *data, {.batch = kHalfBatch, .workers = 2, .worker_index = 0}, first_end);
  const auto second = TrainingWorker::create(
      *data, {.batch = kHalfBatch, .workers = 2, .worker_index = 1}, second_end);
  REQUIRE(first);
  REQUIRE(second);
  for (std::uint64_t step = 0; step < kHalfSteps; ++step) {
    REQUIRE((*first)->step(step).ok());
    REQUIRE((*second)->step(step).ok());
    for (KeyId key = 0; key < lenet_keys().size(); ++key) {
      const auto to = first_gradients->gradient(key);
      const auto from = second_gradients->gradient(key);
      kernels::add(to.data(), {std::as_bytes(to).data(), DataType::kFloat32},
                   {std::as_bytes(from).data(), DataType::kFloat32}, to.size());
      REQUIRE(first_gradients->push(key).ok());
    }
    INFO("step " << step << " differs by "
                 << relative_difference((*first)->snapshot(), (*alone)[step]));
    REQUIRE(relative_difference((*first)->snapshot(), (*alone)[step]) < 1e-5);
  }
  REQUIRE(relative_difference((*alone)[0], (*alone)[kHalfSteps - 1]) > 1e-2);
}

}  // namespace
}  // namespace phub::train

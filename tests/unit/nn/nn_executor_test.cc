// What training relies on from an executor (worker/nn/executor.h), with the CPU's.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "worker/nn/models/models.h"
#include "worker/nn/network.h"
#include "worker/nn/reference/backend.h"

namespace phub::nn {
namespace {

struct Told : Hooks {
  Status weights_needed(const KeyRange& keys) override {
    events.push_back('w' + std::to_string(keys.first));
    return {};
  }
  Status loss_known(const Loss& told) override {
    events.emplace_back("loss");
    loss = told;
    return status;
  }
  Status grad_ready(const KeyRange& keys) override {
    events.push_back('g' + std::to_string(keys.first));
    return {};
  }

  std::vector<std::string> events;
  Loss loss;
  Status status;
};

// A model with zeros for parameters: every class is as likely.
struct ZeroModel {
  explicit ZeroModel(std::uint32_t batch) {
    auto backend = make_reference_backend({});
    REQUIRE(backend);
    auto made = Network::create(*make_model("fcn5", {.classes = 10}), std::move(*backend),
                                {.batch = batch});
    REQUIRE(made);
    network = std::move(*made);
    std::vector<Binding> bindings;
    for (const ParameterSpec& spec : network->parameters()) {
      parameters.emplace_back(spec.elements());
      gradients.emplace_back(spec.elements());
    }
    for (std::size_t key = 0; key < parameters.size(); ++key) {
      bindings.push_back({parameters[key], gradients[key]});
    }
    REQUIRE(network->bind(bindings).ok());
  }

  Executor& executor() { return *network; }

  std::unique_ptr<Network> network;
  std::vector<std::vector<float>> parameters, gradients;
};

TEST_CASE("A step tells its loss in backward, before the first gradient") {
  ZeroModel model(2);
  Executor& executor = model.executor();
  const std::vector<float> images(executor.input_elements(), 1.0F);
  const std::vector<Label> labels = {0, 3};
  Told told;
  REQUIRE(executor.load(images, labels).ok());
  REQUIRE(executor.forward(Mode::kTraining, told).ok());
  REQUIRE(executor.start_loss({}).ok());
  CHECK(told.events.back().front() == 'w');
  REQUIRE(executor.backward(told).ok());
  std::vector<std::string> expected;
  const std::size_t keys = executor.parameters().size();
  for (std::size_t key = 0; key < keys; key += 2) expected.push_back('w' + std::to_string(key));
  expected.emplace_back("loss");
  for (std::size_t key = keys; key > 0; key -= 2) expected.push_back('g' + std::to_string(key - 2));
  CHECK(told.events == expected);
  CHECK(told.loss.sum == Approx(2 * std::log(10.0)));
  CHECK(told.loss.correct == 1);  // the first of equal classes is the answer
}

TEST_CASE("A loss that is refused ends backward before a gradient is told") {
  ZeroModel model(1);
  Executor& executor = model.executor();
  Told told;
  told.status = Status(Code::kAborted, "no");
  REQUIRE(executor.load(std::vector<float>(executor.input_elements()), std::vector<Label>{1}).ok());
  REQUIRE(executor.forward(Mode::kTraining, told).ok());
  REQUIRE(executor.start_loss({}).ok());
  CHECK(executor.backward(told).code() == Code::kAborted);
  CHECK(told.events.back() == "loss");
}

}  // namespace
}  // namespace phub::nn

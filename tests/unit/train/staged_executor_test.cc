// An executor whose network is made anew: it computes what a new one would with the same parameters
// and statistics.
#include "worker/train/stages/staged_executor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "worker/nn/graph/resize.h"
#include "worker/train/backends.h"

namespace phub::train {
namespace {

class Nothing : public nn::Hooks {
 public:
  Status weights_needed(const nn::KeyRange&) override { return {}; }
  Status grad_ready(const nn::KeyRange&) override { return {}; }
};

nn::Graph network() {
  nn::Graph graph({.channels = 3, .height = 12, .width = 12});
  graph.add("conv", nn::Convolution{.channels = 4, .window = {.kernel = 3}}, {0});
  graph.add("norm", nn::BatchNorm{.relu = true}, {1});
  graph.add("pool", nn::GlobalAveragePool{}, {2});
  graph.add("fc", nn::InnerProduct{.outputs = 2}, {3});
  return graph;
}

struct Arrays {
  explicit Arrays(const nn::Executor& executor) {
    for (const nn::ParameterSpec& each : executor.parameters()) {
      std::vector<float> values(each.elements());
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<float>(i) + static_cast<float>(parameters.size()));
      }
      parameters.push_back(values);
      gradients.emplace_back(values.size());
    }
  }
  std::vector<nn::Binding> bindings() {
    std::vector<nn::Binding> all;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      all.push_back({parameters[i], gradients[i]});
    }
    return all;
  }
  std::vector<std::vector<float>> parameters, gradients;
};

void step(nn::Executor& executor) {
  Nothing hooks;
  std::vector<float> images(executor.input_elements());
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = std::cos(static_cast<float>(i));
  const std::vector<nn::Label> labels(executor.batch(), 1);
  REQUIRE(executor.load(images, labels).ok());
  REQUIRE(executor.forward(nn::Mode::kTraining, hooks).ok());
  REQUIRE(executor.start_loss({}).ok());
  REQUIRE(executor.backward(hooks).ok());
}

std::vector<std::vector<float>> buffers_of(nn::Executor& executor) {
  std::vector<std::vector<float>> all;
  const auto buffers = executor.read_buffers();
  REQUIRE(buffers);
  for (const nn::StateBuffer& each : *buffers) {
    all.emplace_back(each.values.begin(), each.values.end());
  }
  return all;
}

TEST_CASE("a network that is made anew goes on with the parameters and the statistics of before") {
  const BackendKind backend = GENERATE(BackendKind::kOnednn, BackendKind::kReference);
  const auto make = [&](const nn::Graph& graph) {
    return make_executor(graph, {.backend = backend, .batch = 4});
  };
  const auto staged = StagedExecutor::create(network(), make);
  REQUIRE(staged);
  nn::Executor& executor = **staged;
  Arrays arrays(executor);
  REQUIRE(executor.bind(arrays.bindings()).ok());
  step(executor);
  const auto statistics = buffers_of(executor);

  const nn::Graph small = *nn::resize(network(), 8);
  REQUIRE((*staged)->change_to(small).ok());
  CHECK(executor.input_elements() == 4U * 3 * 8 * 8);
  CHECK(buffers_of(executor) == statistics);
  step(executor);

  const auto fresh = make(small);
  REQUIRE(fresh);
  Arrays own(**fresh);
  REQUIRE((*fresh)->bind(own.bindings()).ok());
  const auto written = (*fresh)->read_buffers();
  REQUIRE(written);
  for (std::size_t i = 0; i < written->size(); ++i) {
    std::copy(statistics[i].begin(), statistics[i].end(), (*written)[i].values.begin());
  }
  step(**fresh);
  CHECK(arrays.gradients == own.gradients);
  CHECK(buffers_of(executor) == buffers_of(**fresh));
}

// As a device has them: what the host writes is there at the next forward, and reading again before
// that gives what was there before.
class DeviceLike : public nn::Executor {
 public:
  const std::vector<nn::ParameterSpec>& parameters() const override { return parameters_; }
  Result<std::vector<nn::StateBuffer>> read_buffers() override {
    host_ = device_;
    return std::vector<nn::StateBuffer>{{"mean", host_}};
  }
  std::uint32_t batch() const override { return 1; }
  std::size_t input_elements() const override { return 1; }
  std::size_t output_elements() const override { return 1; }
  void set_noise(std::uint64_t) override {}
  Status load(std::span<const float>, const nn::Labels&) override { return {}; }
  Status forward(nn::Mode, nn::Hooks&) override {
    device_ = host_;
    return {};
  }
  Status read_output(std::span<float>) override { return {}; }
  Status start_loss(const nn::LossOptions&) override { return {}; }
  Status backward(nn::Hooks&) override { return {}; }

 private:
  std::vector<nn::ParameterSpec> parameters_;
  std::vector<float> host_ = {0.0F}, device_ = {0.0F};
};

TEST_CASE("statistics that a checkpoint has just written are not read from the device again") {
  const auto staged = StagedExecutor::create(network(), [](const nn::Graph&) {
    return Result<std::unique_ptr<nn::Executor>>(std::make_unique<DeviceLike>());
  });
  REQUIRE(staged);
  (*staged)->read_buffers().value()[0].values[0] = 7.0F;
  REQUIRE((*staged)->change_to(network()).ok());
  CHECK((*staged)->read_buffers().value()[0].values[0] == 7.0F);
  REQUIRE((*staged)->change_to(network()).ok());
  Nothing hooks;
  REQUIRE((*staged)->forward(nn::Mode::kTraining, hooks).ok());
  CHECK((*staged)->read_buffers().value()[0].values[0] == 7.0F);
}

TEST_CASE("the network of before is freed before the next one is made") {
  int alive = 0, most = 0;
  class Counted : public DeviceLike {
   public:
    Counted(int& alive_now, int& most_ever) : alive_(alive_now) {
      most_ever = std::max(most_ever, ++alive_);
    }
    ~Counted() override { --alive_; }

   private:
    int& alive_;
  };
  const auto staged = StagedExecutor::create(network(), [&](const nn::Graph&) {
    return Result<std::unique_ptr<nn::Executor>>(std::make_unique<Counted>(alive, most));
  });
  REQUIRE(staged);
  REQUIRE((*staged)->change_to(network()).ok());
  REQUIRE((*staged)->change_to(network()).ok());
  CHECK(most == 1);
}

TEST_CASE("gradients in memory of the device are refused, as it goes with the network") {
  const auto staged = StagedExecutor::create(network(), [](const nn::Graph&) {
    return Result<std::unique_ptr<nn::Executor>>(std::make_unique<DeviceLike>());
  });
  REQUIRE(staged);
  const auto memory = (*staged)->export_gradients(8);
  REQUIRE_FALSE(memory);
  CHECK(memory.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(memory.error().message(), Catch::Contains("data.progressive"));
}

}  // namespace
}  // namespace phub::train

// A CUDA executor on the host's runtime beside the same network on oneDNN, with the same numbers.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/support/host_runtime.h"
#include "tests/cuda/support/require.h"
#include "worker/cuda/executor/cuda_executor.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/nn/network.h"
#include "worker/nn/onednn/backend.h"

namespace phub::nn::cuda::testing {

using phub::testing::HostRunner;
using phub::testing::HostRuntime;
using phub::testing::require;

// Arrays for all keys, and a step of gradient descent as soon as a layer's gradients are told.
class Descent : public Hooks {
 public:
  explicit Descent(const std::vector<ParameterSpec>& specs, unsigned seed) {
    std::mt19937 random(seed);
    for (const ParameterSpec& spec : specs) {
      const float bound = spec.bias ? 0.2F : std::sqrt(6.0F / static_cast<float>(spec.fan_in()));
      parameters.emplace_back(spec.elements());
      for (float& value : parameters.back()) {
        value = bound * (2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F - 1.0F);
        if (spec.fill == Fill::kOne) value += 1.0F;
      }
      gradients.emplace_back(spec.elements(), NAN);
    }
  }

  std::vector<Binding> bindings() {
    std::vector<Binding> all;
    for (std::size_t key = 0; key < parameters.size(); ++key) {
      all.push_back({parameters[key], gradients[key]});
    }
    return all;
  }

  Status weights_needed(const KeyRange& keys) override {
    needed.push_back(keys.first);
    return {};
  }
  Status loss_known(const Loss& known) override {
    loss = known;
    return status;
  }
  Status grad_ready(const KeyRange& keys) override {
    told.push_back(keys.first);
    for (std::uint32_t key = keys.first; key < keys.first + keys.count; ++key) {
      for (std::size_t i = 0; i < parameters[key].size(); ++i) {
        parameters[key][i] -= learning_rate * gradients[key][i];
      }
    }
    return {};
  }
  Status grad_checked(const KeyRange& keys, Finite finite) override {
    REQUIRE(finite != Finite::kUnknown);
    if (finite == Finite::kYes) return grad_ready(keys);
    ++not_finite;  // left out: even a rate of 0 times infinity is not a number
    told.push_back(keys.first);
    return {};
  }

  float learning_rate = 0.05F;
  std::vector<std::vector<float>> parameters, gradients;
  std::vector<std::uint32_t> needed, told;
  std::size_t not_finite = 0;  // layers
  Loss loss;
  Status status;
};

// Labels of a batch, two of each image where `is_mixed`.
struct RandomLabels {
  RandomLabels(std::mt19937& random, std::size_t images, std::size_t classes, bool is_mixed)
      : first(images), second(is_mixed ? images : 0), shares(second.size()) {
    for (Label& label : first) label = static_cast<Label>(random() % classes);
    for (Label& label : second) label = static_cast<Label>(random() % classes);
    for (float& share : shares) share = 0.5F + static_cast<float>(random() >> 8U) * 0x1p-25F;
  }

  Labels all() const { return {first, second, shares}; }
  // What an executor was given may go.
  void forget() {
    std::ranges::fill(first, Label{60'000});
    std::ranges::fill(second, Label{60'000});
    std::ranges::fill(shares, NAN);
  }

  std::vector<Label> first, second;
  std::vector<float> shares;
};

struct RigOptions {
  HostRuntime::Options runtime = {};
  std::uint32_t batch = 3;
  bool capture = true;
  bool fuse = true;
  std::size_t segments = 4;
  std::chrono::milliseconds timeout{30'000};
};

class Rig {
 public:
  Rig(const Graph& graph, const RigOptions& options) : batch_(options.batch) {
    auto made = std::make_unique<HostRuntime>(options.runtime);
    runtime = made.get();
    auto lowered = require(lower(graph, {.batch = options.batch, .fuse = options.fuse}));
    auto runner = std::make_unique<HostRunner>(*made, std::move(lowered));
    auto made_passes = require(DevicePasses::create(
        graph, std::move(made), std::move(runner),
        {.batch = options.batch,
         .capture = options.capture,
         .timeout = options.timeout,
         .segments = options.segments,
         .note = [this](std::string_view note) { notes.emplace_back(note); }}));
    passes = made_passes.get();
    executor = std::make_unique<CudaExecutor>(std::move(made_passes));
    network =
        require(Network::create(graph, require(make_onednn_backend({})), {.batch = options.batch}));
    own = std::make_unique<Descent>(executor->parameters(), 5);
    oracle = std::make_unique<Descent>(executor->parameters(), 5);
    require(network->bind(oracle->bindings()));
  }

  void new_batch(unsigned seed, bool is_mixed = false) {
    std::mt19937 random(seed);
    std::vector<float> images(executor->input_elements());
    for (float& pixel : images) pixel = 2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F - 1.0F;
    const std::size_t classes = executor->output_elements() / batch_;
    RandomLabels labels(random, batch_, classes, is_mixed);
    for (Executor* each : both()) {
      require(each->load(images, labels.all()));
      each->set_noise(seed);
    }
    // What they were given may go.
    std::fill(images.begin(), images.end(), NAN);
    labels.forget();
  }

  void step(const LossOptions& options = {}) {
    for (Executor* each : both()) {
      Descent& hooks = each == executor.get() ? *own : *oracle;
      hooks.needed.clear();
      hooks.told.clear();
      require(each->forward(Mode::kTraining, hooks));
      require(each->start_loss(options));
      require(each->backward(hooks));
    }
  }

  std::vector<Executor*> both() { return {executor.get(), network.get()}; }

  std::vector<std::string> notes;
  HostRuntime* runtime = nullptr;
  DevicePasses* passes = nullptr;        // the executor's
  std::unique_ptr<Descent> own, oracle;  // their arrays outlive who is bound to them
  std::unique_ptr<CudaExecutor> executor;
  std::unique_ptr<Network> network;

 private:
  std::uint32_t batch_;
};

// |a - b| / |b| in the Euclidean norm; |b| counts as at least 1e-3 for each element.
inline double distance(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / std::max(size, 1e-6 * static_cast<double>(a.size())));
}

}  // namespace phub::nn::cuda::testing

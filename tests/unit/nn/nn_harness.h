// A network with parameters, gradients and inputs of its own, for tests: fills, runs, and compares
// with finite differences.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "worker/nn/network.h"
#include "worker/nn/onednn/backend.h"

namespace phub::nn {

struct NoHooks : Hooks {
  Status weights_needed(const KeyRange&) override { return {}; }
  Status grad_ready(const KeyRange&) override { return {}; }
};

// Storage whose first element is `offset` floats beyond a 64-byte bound.
class Floats {
 public:
  explicit Floats(std::size_t elements, std::size_t offset = 0)
      : elements_(elements), storage_(elements + offset + kAlignment) {
    void* address = storage_.data();
    std::size_t space = storage_.size() * sizeof(float);
    start_ = static_cast<float*>(std::align(kAlignment, sizeof(float), address, space)) + offset;
  }
  std::span<float> span() { return {start_, elements_}; }

 private:
  static constexpr std::size_t kAlignment = 64;
  std::size_t elements_;
  std::vector<float> storage_;
  float* start_ = nullptr;
};

class NetworkHarness {
 public:
  NetworkHarness(const Graph& graph, std::uint32_t batch, std::size_t offset = 0) {
    auto backend = make_onednn_backend({});
    REQUIRE(backend);
    backend_ = std::move(*backend);
    auto network = Network::create(graph, *backend_, {.batch = batch, .input_gradient = true});
    INFO((network ? std::string() : network.error().to_string()));
    REQUIRE(network);
    network_ = std::move(*network);
    for (const ParameterSpec& spec : network_->parameters()) {
      parameters_.emplace_back(spec.elements(), offset);
      gradients_.emplace_back(spec.elements(), offset);
      randomise(parameters_.back().span());
    }
    std::vector<Binding> bindings;
    for (std::size_t key = 0; key < parameters_.size(); ++key) {
      bindings.push_back({parameters_[key].span(), gradients_[key].span()});
    }
    REQUIRE(network_->bind(bindings).ok());
    input.resize(network_->input().elements());
    output_weights_.resize(network_->output().elements());
    randomise(input);
    randomise(output_weights_);
  }

  void randomise(std::span<float> values) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (float& value : values) value = uniform(random_);
  }

  Network& network() { return *network_; }
  Backend& backend() { return *backend_; }
  std::span<float> parameter(std::size_t key) { return parameters_[key].span(); }
  std::span<float> gradient(std::size_t key) { return gradients_[key].span(); }
  std::size_t keys() const { return parameters_.size(); }

  std::vector<float> forward(Mode mode = Mode::kTraining) {
    network_->input().write_value(input);
    REQUIRE(network_->forward(mode, hooks_).ok());
    std::vector<float> result(network_->output().elements());
    network_->output().read_value(result);
    return result;
  }

  // A scalar of the output whose gradient by it is output_weights_.
  double loss() {
    const std::vector<float> result = forward();
    double sum = 0.0;
    for (std::size_t i = 0; i < result.size(); ++i) {
      sum += static_cast<double>(result[i]) * static_cast<double>(output_weights_[i]);
    }
    return sum;
  }

  void loss_weights(std::span<float> to) const {
    std::copy(output_weights_.begin(), output_weights_.end(), to.begin());
  }

  std::vector<float> backward() {
    network_->output().write_gradient(output_weights_);
    REQUIRE(network_->backward(hooks_).ok());
    std::vector<float> result(network_->input().elements());
    network_->input().read_gradient(result);
    return result;
  }

  // Compares the gradients by the input and by every parameter with double-sided differences of
  // step `epsilon`, on up to 64 elements each. The tolerance is relative to the largest gradient of
  // the array.
  void check_gradients(float epsilon, double tolerance) {
    loss();
    const std::vector<float> by_input = backward();
    std::vector<std::vector<float>> by_parameter;
    for (std::size_t key = 0; key < keys(); ++key) {
      by_parameter.emplace_back(gradient(key).begin(), gradient(key).end());
    }
    compare("input", input, by_input, {epsilon, tolerance});
    for (std::size_t key = 0; key < keys(); ++key) {
      compare(network_->parameters()[key].name, parameter(key), by_parameter[key],
              {epsilon, tolerance});
    }
  }

  std::vector<float> input;

 private:
  struct Precision {
    float epsilon;
    double tolerance;
  };

  void compare(const std::string& what, std::span<float> values, const std::vector<float>& analytic,
               const Precision& precision) {
    constexpr std::size_t kMaxElements = 64;
    double largest = 0.0;
    for (const float value : analytic) largest = std::max(largest, std::abs(double{value}));
    REQUIRE(largest > 0.0);
    const std::size_t stride = (values.size() + kMaxElements - 1) / kMaxElements;
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const float before = values[i];
      values[i] = before + precision.epsilon;
      const double above = loss();
      values[i] = before - precision.epsilon;
      const double below = loss();
      values[i] = before;
      const double numeric = (above - below) / (2.0 * double{precision.epsilon});
      INFO("gradient by " << what << "[" << i << "]: " << analytic[i] << ", numerically "
                          << numeric);
      REQUIRE(std::abs(double{analytic[i]} - numeric) <= precision.tolerance * largest);
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Network> network_;
  NoHooks hooks_;
  std::mt19937 random_{7};
  std::vector<Floats> parameters_, gradients_;
  std::vector<float> output_weights_;
};

}  // namespace phub::nn

// A network on any backend, with parameters and inputs that are the same on all of them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "tests/unit/nn/nn_cases.h"
#include "worker/nn/network.h"
#include "worker/nn/reference/backend.h"

namespace phub::nn {

struct Silent : Hooks {
  Status weights_needed(const KeyRange&) override { return {}; }
  Status grad_ready(const KeyRange&) override { return {}; }
};

class NetworkRun {
 public:
  // `exact_in`: parameters, input and output_weights are numbers of this type.
  NetworkRun(const GraphCase& graph_case, std::unique_ptr<Backend> backend,
             DataType exact_in = DataType::kFloat32)
      : backend_(std::move(backend)) {
    auto made = Network::create(graph_case.graph, *backend_,
                                {.batch = graph_case.batch, .input_gradient = true});
    INFO((made ? std::string() : made.error().to_string()));
    REQUIRE(made);
    network_ = std::move(*made);
    std::mt19937 random(7);
    std::vector<Binding> bindings;
    for (const ParameterSpec& spec : network_->parameters()) {
      parameters.push_back(initial(spec, random));
      gradients.emplace_back(spec.elements());
    }
    for (std::size_t key = 0; key < parameters.size(); ++key) {
      bindings.push_back({parameters[key], gradients[key]});
    }
    REQUIRE(network_->bind(bindings).ok());
    input = numbers(network_->input().elements(), 1.0F, random);
    output_weights = numbers(network_->output().elements(), 1.0F, random);
    for (auto& values : parameters) round_to(exact_in, values);
    round_to(exact_in, input);
    round_to(exact_in, output_weights);
    backend_->set_noise(99);
  }

  Network& network() { return *network_; }

  void forward(Mode mode = Mode::kTraining) { REQUIRE(network_->forward(mode, hooks_).ok()); }

  // The gradients of the sum of output x output_weights.
  void backward() {
    network_->output().write_gradient(output_weights);
    REQUIRE(network_->backward(hooks_).ok());
  }

  std::vector<float> output() const {
    std::vector<float> values(network_->output().elements());
    network_->output().read_value(values);
    return values;
  }
  std::vector<float> input_gradient() const {
    std::vector<float> values(network_->input().elements());
    network_->input().read_gradient(values);
    return values;
  }

  std::vector<float> input, output_weights;
  std::vector<std::vector<float>> parameters, gradients;

 private:
  static std::vector<float> numbers(std::size_t count, float bound, std::mt19937& random) {
    std::vector<float> values(count);
    // In 2^24 steps and without <random>'s distributions, which libraries implement differently.
    for (float& value : values) {
      value = bound * (2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F - 1.0F);
    }
    return values;
  }

  static void round_to(DataType type, std::vector<float>& values) {
    std::vector<std::byte> rounded(values.size() * size_of(type));
    const auto bytes = std::as_writable_bytes(std::span(values));
    kernels::convert(rounded.data(), type, bytes.data(), DataType::kFloat32, values.size());
    kernels::convert(bytes.data(), DataType::kFloat32, rounded.data(), type, values.size());
  }

  static std::vector<float> initial(const ParameterSpec& spec, std::mt19937& random) {
    if (!spec.bias) {  // variance 2 / fan-in
      const float bound = std::sqrt(6.0F / static_cast<float>(spec.fan_in()));
      return numbers(spec.elements(), bound, random);
    }
    std::vector<float> values = numbers(spec.elements(), 0.2F, random);
    if (spec.fill == Fill::kOne) {
      for (float& value : values) value += 1.0F;
    }
    return values;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Network> network_;
  Silent hooks_;
};

// |a - b| / |b| in the Euclidean norm, where |b| counts as at least `floor` for each element: what
// is zero but for rounding has no relative error.
inline double distance(const std::vector<float>& a, const std::vector<float>& b,
                       double floor = 0.0) {
  REQUIRE(a.size() == b.size());
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  size = std::max(size, floor * floor * static_cast<double>(a.size()));
  return size > 0.0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

struct Tolerance {
  double output, gradient;
};

// Compares with the reference in fp64: outputs in training and inference, every gradient, and the
// running statistics. Distances as above, for gradients with a floor of a hundredth of the root
// mean square of all. Both start from numbers of type `exact_in`.
inline void compare_with_fp64(const GraphCase& each, std::unique_ptr<Backend> backend,
                              const Tolerance& tolerance, DataType exact_in = DataType::kFloat32) {
  INFO(each.name);
  NetworkRun exact(each, make_double_backend(), exact_in);
  NetworkRun run(each, std::move(backend), exact_in);
  for (NetworkRun* one : {&exact, &run}) {
    one->network().input().write_value(one->input);
    one->forward();
    one->backward();
  }
  double squares = 0.0, elements = 0.0;
  for (const auto& gradient : exact.gradients) {
    for (const float value : gradient) squares += std::pow(double{value}, 2);
    elements += static_cast<double>(gradient.size());
  }
  const double floor = elements > 0.0 ? 0.01 * std::sqrt(squares / elements) : 0.0;
  CHECK(distance(run.output(), exact.output()) <= tolerance.output);
  CHECK(distance(run.input_gradient(), exact.input_gradient()) <= tolerance.gradient);
  for (std::size_t key = 0; key < run.gradients.size(); ++key) {
    INFO(run.network().parameters()[key].name);
    CHECK(distance(run.gradients[key], exact.gradients[key], floor) <= tolerance.gradient);
  }
  const auto buffers = run.network().buffers();
  const auto exact_buffers = exact.network().buffers();
  REQUIRE(buffers.size() == exact_buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    INFO(buffers[i].name);
    REQUIRE(buffers[i].name == exact_buffers[i].name);
    const std::vector<float> own(buffers[i].values.begin(), buffers[i].values.end());
    CHECK(distance(own, {exact_buffers[i].values.begin(), exact_buffers[i].values.end()}) <=
          tolerance.output);
  }
  for (NetworkRun* one : {&exact, &run}) one->forward(Mode::kInference);
  CHECK(distance(run.output(), exact.output()) <= tolerance.output);
}

}  // namespace phub::nn

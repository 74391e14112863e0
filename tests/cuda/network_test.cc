// Networks on a GPU, fused and not, against the interpreter of the same steps in fp32.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "tests/cuda/device_environment.h"
#include "tests/cuda/networks.h"
#include "tests/support/lowered_interpreter.h"
#include "worker/nn/cuda/lowering.h"
#include "worker/nn/cuda/planned_network.h"
#include "worker/nn/models.h"

namespace phub::nn::cuda {
namespace {

using kernels::cuda::reference::load;
using kernels::cuda::reference::store;
using phub::testing::LoweredInterpreter;

template <typename T>
T require(Result<T> result) {
  INFO((result ? std::string() : result.error().message()));
  REQUIRE(result);
  return std::move(*result);
}

void require(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

DataType type_of(const Buffer& buffer) {
  return buffer.type == ElementType::kFloat32   ? DataType::kFloat32
         : buffer.type == ElementType::kFloat16 ? DataType::kFloat16
                                                : DataType::kBfloat16;
}

// One network on both, with the same numbers.
class Pair {
 public:
  Pair(CudnnTarget& target, const Graph& graph, const LoweringOptions& options)
      : lowered_(require(lower(graph, options))),
        interpreter_(lowered_, kNoise),
        book_(target, cache_, {}),
        network_(require(
            PlannedNetwork::create(book_, lowered_, {.compute_type = options.compute_type}))) {
    require(network_->set_noise(kNoise, nullptr));
    for (const ParameterLayout& layout : lowered_.parameters) {
      // Of a size that keeps activations near 1.
      const double fan_in = static_cast<double>(layout.c * layout.pixels);
      std::vector<float> plain(static_cast<std::size_t>(layout.k * layout.c * layout.pixels));
      fill(plain, std::sqrt(3.0 / fan_in));
      interpreter_.write_parameter(static_cast<std::size_t>(&layout - lowered_.parameters.data()),
                                   plain);
      copy_to_device(layout.value);
    }
    const std::int64_t channels = graph.input_shape().channels;
    write(lowered_.input, channels, graph.input_shape().elements() * options.batch);
  }

  void check_step(std::int64_t classes, std::uint32_t batch, double tolerance) {
    run(Pass::kForward, lowered_.forward);
    check(lowered_.output, tolerance);
    write(lowered_.output_gradient, classes, static_cast<std::size_t>(classes) * batch);
    run(Pass::kBackward, lowered_.backward);
    for (const ParameterLayout& layout : lowered_.parameters) check(layout.gradient, tolerance);
    for (const StateLayout& state : lowered_.states) check(state.buffer, tolerance);
    run(Pass::kInference, lowered_.inference);
    check(lowered_.inference_output, tolerance);
  }

 private:
  static constexpr std::uint64_t kNoise = 99;

  void fill(std::span<float> values, double bound) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (float& value : values) value = static_cast<float>(bound) * uniform(random_);
  }
  void write(BufferId id, std::int64_t channels, std::size_t elements) {
    std::vector<float> plain(elements);
    fill(plain, 1.0);
    interpreter_.write_image(id, plain, channels);
    copy_to_device(id);
  }
  void copy_to_device(BufferId id) {
    const Buffer& buffer = lowered_.buffer(id);
    const std::span<float> values = interpreter_.buffer(id);
    std::vector<std::byte> bytes(buffer.bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      store(bytes.data(), type_of(buffer), static_cast<std::int64_t>(i), values[i]);
      // From here on both compute with the same number.
      values[i] = load(bytes.data(), type_of(buffer), static_cast<std::int64_t>(i));
    }
    require(cuda_status(
        cudaMemcpy(network_->address(id), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
        buffer.name));
  }
  void run(Pass pass, const std::vector<Step>& steps) {
    interpreter_.run(steps);
    require(network_->run(pass, nullptr));
    require(cuda_status(cudaDeviceSynchronize(), "a pass"));
  }
  // The root of the summed squares of the differences, against that of the expected.
  void check(BufferId id, double tolerance) {
    const Buffer& buffer = lowered_.buffer(id);
    std::vector<std::byte> bytes(buffer.bytes());
    require(cuda_status(
        cudaMemcpy(bytes.data(), network_->address(id), bytes.size(), cudaMemcpyDeviceToHost),
        buffer.name));
    double differences = 0.0, squares = 0.0;
    const std::span<float> expected = interpreter_.buffer(id);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double is = double{load(bytes.data(), type_of(buffer), static_cast<std::int64_t>(i))};
      differences += (is - double{expected[i]}) * (is - double{expected[i]});
      squares += double{expected[i]} * double{expected[i]};
    }
    INFO(buffer.name << ": relative difference " << std::sqrt(differences / squares));
    CHECK(differences <= tolerance * tolerance * squares);
  }

  EngineCache cache_ = require(EngineCache::open({}, {}));
  Lowered lowered_;
  LoweredInterpreter interpreter_;
  EngineBook book_;
  std::unique_ptr<PlannedNetwork> network_;
  std::mt19937 random_{5};
};

TEST_CASE("Networks on a GPU compute what their steps say") {
  const auto library = require(CudnnLibrary::open(testing::libraries()));
  const auto target = require(CudnnTarget::current_device(*library));
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool fuse = GENERATE(false, true);
  INFO(name_of(type) << (fuse ? ", fused" : ", unfused"));
  const LoweringOptions options{.batch = 8, .compute_type = type, .fuse = fuse};
  // Half an ulp is 2^-11 and 2^-8; errors grow with the square root of the layers and with
  // cancellation in batch normalisation's backward.
  const double tolerance = type == DataType::kFloat16 ? 0.02 : 0.12;
  SECTION("blocks of every kind") {
    Pair(*target, phub::nn::testing::blocks(), options).check_step(5, options.batch, tolerance);
  }
  SECTION("LeNet") { Pair(*target, lenet(10), options).check_step(10, options.batch, tolerance); }
  SECTION("ResNet-20") {
    Pair(*target, resnet20(10), options).check_step(10, options.batch, tolerance);
  }
}

}  // namespace
}  // namespace phub::nn::cuda

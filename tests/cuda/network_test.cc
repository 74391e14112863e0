// Networks on a GPU, fused and not, step by step against the interpreter of the same steps.
#include "worker/cuda/planned/network.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/support/device_environment.h"
#include "tests/cuda/support/require.h"
#include "tests/cuda/support/step_comparison.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/nn/models/models.h"

namespace phub::nn::cuda {
namespace {

using kernels::cuda::reference::load;
using kernels::cuda::reference::store;
using phub::testing::Difference;
using phub::testing::require;
using phub::testing::StepComparison;

constexpr std::uint64_t kNoise = 99;

DataType type_of(const Buffer& buffer) {
  return buffer.type == ElementType::kFloat32   ? DataType::kFloat32
         : buffer.type == ElementType::kFloat16 ? DataType::kFloat16
                                                : DataType::kBfloat16;
}

class PlannedSteps final : public phub::testing::StepDevice {
 public:
  explicit PlannedSteps(PlannedNetwork& network) : network_(network) {}

  Status run(Pass pass, std::size_t step) override {
    PHUB_RETURN_IF_ERROR(network_.run(pass, step, step + 1, nullptr));
    return cuda_status(cudaDeviceSynchronize(), steps_of(network_.lowered(), pass)[step].name);
  }
  Status read(BufferId id, std::span<float> to) override {
    const Buffer& buffer = network_.lowered().buffer(id);
    bytes_.resize(buffer.bytes());
    PHUB_RETURN_IF_ERROR(cuda_status(
        cudaMemcpy(bytes_.data(), network_.address(id), bytes_.size(), cudaMemcpyDeviceToHost),
        buffer.name));
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = load(bytes_.data(), type_of(buffer), static_cast<std::int64_t>(i));
    }
    return {};
  }
  Status write(BufferId id, std::span<const float> from) override {
    const Buffer& buffer = network_.lowered().buffer(id);
    bytes_.resize(buffer.bytes());
    for (std::size_t i = 0; i < from.size(); ++i) {
      store(bytes_.data(), type_of(buffer), static_cast<std::int64_t>(i), from[i]);
    }
    return cuda_status(
        cudaMemcpy(network_.address(id), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice),
        buffer.name);
  }

 private:
  PlannedNetwork& network_;
  std::vector<std::byte> bytes_;
};

void check_steps(CudnnTarget& target, const Graph& graph, const LoweringOptions& options,
                 std::int64_t classes) {
  EngineCache cache = require(EngineCache::open({}, {}));
  EngineBook book(target, cache, {});
  const auto network = require(PlannedNetwork::create(book, require(lower(graph, options)),
                                                      {.compute_type = options.compute_type}));
  const Status noise = network->set_noise(kNoise, nullptr);
  INFO(noise.message());
  REQUIRE(noise.ok());
  PlannedSteps device(*network);
  StepComparison comparison(network->lowered(), device,
                            {.input = graph.input_shape().channels, .output = classes}, kNoise);
  for (const Difference& difference : require(comparison.run())) FAIL_CHECK(difference.text());
}

TEST_CASE("Every step of a network on a GPU does what its graph says") {
  const auto library = require(CudnnLibrary::open(testing::libraries()));
  const auto target = require(CudnnTarget::current_device(*library));
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool fuse = GENERATE(false, true);
  INFO(name_of(type) << (fuse ? ", fused" : ", unfused"));
  const LoweringOptions options{.batch = 4, .compute_type = type, .fuse = fuse};
  SECTION("blocks of every kind") { check_steps(*target, phub::nn::testing::blocks(), options, 5); }
  SECTION("LeNet") { check_steps(*target, lenet(10), options, 10); }
  SECTION("ResNet-20") { check_steps(*target, resnet20(10), options, 10); }
}

// Not one of the tests: prints what worker/cuda/data has of a device that is only described.
TEST_CASE("The device's own description", "[.]") {
  const auto library = require(CudnnLibrary::open(testing::libraries()));
  const auto target = require(CudnnTarget::current_device(*library));
  std::cout << require(target->describe()) << std::endl;
}

}  // namespace
}  // namespace phub::nn::cuda

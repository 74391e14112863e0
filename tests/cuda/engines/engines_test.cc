// ResNet-50 at its real size on a GPU: the engine chosen for each different graph of training,
// fused and not, against plain arithmetic on the same device.
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "tests/cuda/engines/device_graph_check.h"
#include "tests/cuda/support/device_environment.h"
#include "tests/cuda/support/require.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/cuda/planned/network.h"
#include "worker/cuda/runtime/cuda_runtime.h"
#include "worker/nn/models/models.h"

namespace phub::nn::cuda {
namespace {

using phub::testing::Difference;
using phub::testing::require;

// The largest batch of which network and arithmetic have room: some 20 GB and 15 of 256 images.
std::uint32_t batch_with_room() {
  std::size_t free = 0, all = 0;
  REQUIRE(cudaMemGetInfo(&free, &all) == cudaSuccess);
  std::uint32_t batch = 256;
  while (batch > 8 && free / batch < (std::size_t{200} << 20U)) batch /= 2;
  return batch;
}

// The engine of each step with a graph, by the step's name.
std::map<std::string, std::string> engines_of(EngineBook& book, const PlannedNetwork& network) {
  std::map<std::string, std::string> engines;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const Step& step : steps_of(network.lowered(), pass)) {
      const auto* work = std::get_if<GraphStep>(&step.work);
      if (work == nullptr) continue;
      const AddressOf address = [&](BufferId id) { return network.address(id); };
      engines[step.name] = std::to_string(require(book.plan(*work, address))->choice().engine);
    }
  }
  return engines;
}

TEST_CASE("The engine of every graph of ResNet-50 does what the graph says") {
  const auto library = require(CudnnLibrary::open(testing::libraries()));
  const auto target = require(CudnnTarget::current_device(*library));
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool fuse = GENERATE(true, false);
  const LoweringOptions options{.batch = batch_with_room(), .compute_type = type, .fuse = fuse};
  const auto runtime = require(CudaRuntime::create(0));
  EngineCache cache =
      require(EngineCache::open(testing::engine_cache(),
                                {.cudnn_version = static_cast<std::int64_t>(library->version()),
                                 .device = runtime->device_name()},
                                committed_engines()));
  EngineBook book(*target, cache, {});
  const auto network = require(PlannedNetwork::create(
      book, require(lower(require(make_model("resnet50")), options)), {.compute_type = type}));
  const auto run = [&](Pass pass, std::size_t step) -> Status {
    PHUB_RETURN_IF_ERROR(network->run(pass, step, step + 1, nullptr));
    return cuda_status(cudaDeviceSynchronize(), steps_of(network->lowered(), pass)[step].name);
  };
  const auto checked = require(phub::testing::check_graphs_on_device(
      network->lowered(), [&](BufferId id) { return network->address(id); }, run,
      {.input = 3, .output = 1000}));
  std::cout << name_of(type) << (fuse ? ", fused" : ", unfused") << ", batch " << options.batch
            << ": " << checked.graphs << " graphs, " << checked.differences.size()
            << " buffers differ" << std::endl;
  CHECK(checked.graphs > 50);
  auto engines = engines_of(book, *network);
  for (const Difference& difference : checked.differences) {
    FAIL_CHECK(difference.text() << ", engine " << engines[difference.step]);
  }
}

}  // namespace
}  // namespace phub::nn::cuda

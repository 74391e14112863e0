// A CUDA executor on a GPU, with its streams, graphs and registered memory, beside oneDNN in fp32.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/memory/memory.h"
#include "tests/cuda/executor/executor_rig.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/support/device_environment.h"
#include "tests/cuda/support/likeness.h"
#include "worker/cuda/planned/runner.h"
#include "worker/cuda/runtime/cuda_runtime.h"

namespace phub::nn::cuda {
namespace {

using testing::Descent;
using testing::require;

constexpr std::uint32_t kBatch = 16;

struct DeviceOptions {
  DataType type = DataType::kFloat16;
  bool capture = true;
  bool tune = false;
};

std::unique_ptr<CudaExecutor> make_executor(const Graph& graph, const DeviceOptions& options,
                                            std::vector<std::string>& notes) {
  auto runtime = require(CudaRuntime::create(0));
  auto runner = require(PlannedRunner::create(
      *runtime, graph,
      {.lowering = {.batch = kBatch, .compute_type = options.type},
       .fusion = options.tune ? Fusion::kTuned : Fusion::kFused,
       .tune = options.tune,
       .engine_cache = options.tune ? testing::engine_cache() : std::filesystem::path(),
       .libraries = testing::libraries()}));
  return std::make_unique<CudaExecutor>(require(DevicePasses::create(
      graph, std::move(runtime), std::move(runner),
      {.batch = kBatch, .capture = options.capture, .note = [&notes](std::string_view note) {
         notes.emplace_back(note);
       }})));
}

struct Batch {
  Batch(const Executor& executor, unsigned seed)
      : images(executor.input_elements()), labels(kBatch) {
    std::mt19937 random(seed);
    for (float& pixel : images) pixel = 2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F - 1.0F;
    const std::size_t classes = executor.output_elements() / kBatch;
    for (Label& label : labels) label = static_cast<Label>(random() % classes);
  }
  std::vector<float> images;
  std::vector<Label> labels;
};

void step(Executor& executor, Descent& hooks, unsigned seed) {
  const Batch batch(executor, seed);
  require(executor.load(batch.images, batch.labels));
  executor.set_noise(seed);
  require(executor.forward(Mode::kTraining, hooks));
  require(executor.start_loss({.gradient_scale = 16.0}));
  require(executor.backward(hooks));
}

TEST_CASE("Steps on a GPU are those of oneDNN, captured and not, tuned and not") {
  const Graph graph = phub::nn::testing::blocks();
  const DeviceOptions options{.type = GENERATE(DataType::kFloat16, DataType::kBfloat16),
                              .capture = GENERATE(false, true),
                              .tune = GENERATE(false, true)};
  INFO(name_of(options.type) << (options.capture ? ", captured" : "")
                             << (options.tune ? ", tuned" : ""));
  const auto network =
      require(Network::create(graph, require(make_onednn_backend({})), {.batch = kBatch}));
  Descent own(network->parameters(), 5), oracle(network->parameters(), 5);
  own.learning_rate = oracle.learning_rate = 0.002F;
  std::vector<std::string> notes;
  const auto executor = make_executor(graph, options, notes);
  require(executor->bind(own.bindings()));
  require(network->bind(oracle.bindings()));
  // All steps are judged together: a mask that a rounding turns may bend eight numbers of one step.
  std::vector<std::vector<float>> found(own.gradients.size()), expected(own.gradients.size());
  for (unsigned number = 1; number <= 5; ++number) {
    // Both begin where the oracle is: one step's gradients are compared, not five steps' paths.
    for (std::size_t key = 0; key < own.parameters.size(); ++key) {
      std::copy(oracle.parameters[key].begin(), oracle.parameters[key].end(),
                own.parameters[key].begin());
    }
    step(*executor, own, number);
    step(*network, oracle, number);
    INFO("step " << number);
    CHECK(own.loss.sum == Approx(oracle.loss.sum).epsilon(0.05));
    for (std::size_t key = 0; key < own.gradients.size(); ++key) {
      found[key].insert(found[key].end(), own.gradients[key].begin(), own.gradients[key].end());
      expected[key].insert(expected[key].end(), oracle.gradients[key].begin(),
                           oracle.gradients[key].end());
    }
    CHECK(own.not_finite == 0);
  }
  for (std::size_t key = 0; key < found.size(); ++key) {
    const testing::Likeness like = testing::likeness(found[key], expected[key]);
    INFO(executor->parameters()[key].name << ": cosine " << like.cosine << ", length "
                                          << like.ratio);
    CHECK(testing::is_alike(like, options.type));
  }
  for (const std::string& note : notes) FAIL_CHECK(note);  // captured and registered, or it is told
}

TEST_CASE("A GPU that keeps its parameters learns a batch by heart") {
  const Graph graph = phub::nn::testing::blocks();
  std::vector<std::string> notes;
  const auto executor = make_executor(graph, {}, notes);
  Descent hooks(executor->parameters(), 5);
  require(executor->keep_parameters(hooks.parameters));
  double first = 0.0;
  for (unsigned number = 0; number < 60; ++number) {
    step(*executor, hooks, 1);
    require(executor->update(
        {.learning_rate = 0.02F, .momentum = 0.9F, .gradient_scale = 1.0F / 16.0F}));
    if (number == 0) first = hooks.loss.sum;
  }
  CHECK(hooks.loss.sum < 0.5 * first);
}

TEST_CASE("Gradients that overflow are told by the layer") {
  const Graph graph = phub::nn::testing::blocks();
  std::vector<std::string> notes;
  const auto executor = make_executor(graph, {}, notes);
  Descent hooks(executor->parameters(), 5);
  hooks.learning_rate = 0.0F;
  require(executor->bind(hooks.bindings()));
  const Batch batch(*executor, 1);
  for (const double scale : {1e30, 1.0}) {
    require(executor->load(batch.images, batch.labels));
    require(executor->forward(Mode::kTraining, hooks));
    require(executor->start_loss({.gradient_scale = scale}));
    hooks.not_finite = 0;
    require(executor->backward(hooks));
    CHECK((hooks.not_finite > 0) == (scale > 1.0));
  }
}

TEST_CASE("Memory for adapters is cleared whole pages, and says whether it is a dma-buf") {
  constexpr std::size_t kBytes = 100'000;
  const auto runtime = require(CudaRuntime::create(0));
  const auto memory = require(runtime->exported_memory(kBytes, "a test"));
  REQUIRE(memory->bytes.size() == kBytes);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->bytes.data()) % page_bytes() == 0);
  CHECK(static_cast<bool>(memory->dmabuf) == memory->no_dmabuf.empty());
  const auto host = require(runtime->pinned_memory(kBytes, "a test"));
  std::memset(host->address, 1, kBytes);
  require(runtime->copy(host->address, memory->bytes.data(), kBytes, Stream::kDownload));
  require(runtime->synchronise(Stream::kDownload));
  const std::span values(host->as<std::byte>(), kBytes);
  CHECK(std::count(values.begin(), values.end(), std::byte{0}) == kBytes);
}

TEST_CASE("Gradients that stay on the GPU for an adapter are those that are copied to the host") {
  const Graph graph = phub::nn::testing::blocks();
  std::vector<std::string> notes;
  const auto copied = make_executor(graph, {}, notes);
  const auto exported = make_executor(graph, {}, notes);
  Descent on_host(copied->parameters(), 5), on_gpu(copied->parameters(), 5);
  on_host.learning_rate = on_gpu.learning_rate = 0.0F;
  std::size_t bytes = 0;
  for (const auto& gradient : on_gpu.gradients) bytes += 4 * gradient.size();
  const auto memory = require(exported->export_gradients(bytes));
  std::vector<TypedBinding> bindings;
  for (std::size_t key = 0, offset = 0; key < on_gpu.gradients.size(); ++key) {
    const std::size_t size = 4 * on_gpu.gradients[key].size();
    bindings.push_back(
        {std::as_bytes(std::span(on_gpu.parameters[key])), memory->bytes.subspan(offset, size)});
    offset += size;
  }
  require(copied->bind(on_host.bindings()));
  require(exported->bind_typed({.keys = bindings, .exported = memory}));
  step(*copied, on_host, 1);
  step(*exported, on_gpu, 1);

  const auto runtime = require(CudaRuntime::create(0));
  const auto host = require(runtime->pinned_memory(bytes, "a test"));
  require(runtime->copy(host->address, memory->bytes.data(), bytes, Stream::kDownload));
  require(runtime->synchronise(Stream::kDownload));
  std::size_t offset = 0;
  for (const auto& gradient : on_host.gradients) {
    // Two runs may add in another order, which turns a mask here and there.
    const std::span<const float> exported_values(host->as<float>(offset), gradient.size());
    CHECK(testing::is_alike(testing::likeness(exported_values, gradient), DataType::kFloat16));
    offset += 4 * gradient.size();
  }
}

}  // namespace
}  // namespace phub::nn::cuda

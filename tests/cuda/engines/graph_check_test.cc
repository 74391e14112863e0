// The arithmetic that graphs of real size are checked with on a GPU, run on the host: does it agree
// with the interpreter, pass a device that only rounds, and name the step of one that is wrong?
#include "tests/cuda/engines/graph_check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/cuda/engines/host_machine.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/support/likeness.h"
#include "tests/cuda/support/op_graph_interpreter.h"
#include "tests/cuda/support/rounding_device.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/nn/models/models.h"

namespace phub::testing {
namespace {

using namespace nn::cuda;  // NOLINT(google-build-using-namespace)
using naive::HostMachine;

Lowered training_of(const nn::Graph& graph, DataType type, bool fuse) {
  auto lowered = lower(graph, {.batch = 3, .compute_type = type, .fuse = fuse});
  REQUIRE(lowered);
  return std::move(*lowered);
}

// Of each kDevice operand; an index of pooling says which of few taps.
std::vector<std::vector<float>> random_memory(const OpGraph& graph, std::mt19937& random) {
  std::vector<std::vector<float>> memory;
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (const Operand& operand : graph.operands()) {
    if (operand.storage != Storage::kDevice) continue;
    std::vector<float>& values = memory.emplace_back(operand.elements());
    for (float& value : values) {
      value =
          operand.type == ElementType::kInt8 ? static_cast<float>(random() % 4) : uniform(random);
    }
  }
  return memory;
}

void check_as_interpreted(const Step& step, const OpGraph& graph, std::mt19937& random) {
  std::vector<std::vector<float>> expected = random_memory(graph, random);
  std::vector<std::vector<float>> found = expected;
  std::vector<std::span<float>> spans(expected.begin(), expected.end());
  interpret(graph, spans);
  std::vector<float*> addresses;
  for (std::vector<float>& values : found) addresses.push_back(values.data());
  HostMachine host;
  naive::Graph<HostMachine>(host, graph, addresses).run();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(step.name << ", memory " << i);
    double most = 0.0, size = 0.0;
    for (std::size_t at = 0; at < expected[i].size(); ++at) {
      most = std::max(most, difference(found[i][at], expected[i][at]));
      size = std::max(size, std::abs(double{expected[i][at]}));
    }
    CHECK(most <= 1e-5 * size);
  }
}

}  // namespace

TEST_CASE("Every operation is worked out as the interpreter does it") {
  const bool fuse = GENERATE(false, true);
  const Lowered lowered = training_of(nn::testing::blocks(), DataType::kFloat16, fuse);
  std::mt19937 random(17);
  std::size_t graphs = 0;
  for (const auto* steps : {&lowered.forward, &lowered.backward, &lowered.inference}) {
    for (const Step& step : *steps) {
      const auto* work = std::get_if<GraphStep>(&step.work);
      if (work == nullptr) continue;
      check_as_interpreted(step, work->graph, random);
      ++graphs;
    }
  }
  CHECK(graphs > 50);
}

namespace {

struct Checked {
  std::vector<Difference> differences;
  std::size_t graphs = 0;
};

Checked checked(const Lowered& lowered, std::int64_t classes, const Fault& fault = {}) {
  RoundingDevice device(lowered, fault);
  HostMachine host;
  naive::GraphCheck<HostMachine> check(
      host, lowered, [&](BufferId id) -> void* { return device.buffer(id).data(); },
      [&](Pass pass, std::size_t step) { return device.run(pass, step); });
  auto differences = check.run({.input = 3, .output = classes});
  REQUIRE(differences);
  return {std::move(*differences), check.checked()};
}

// Steps with a graph, each different one where it first comes.
std::vector<const Step*> first_steps(const Lowered& lowered) {
  std::vector<const Step*> first;
  std::set<std::string> seen;
  for (const auto* steps : {&lowered.forward, &lowered.backward}) {
    for (const Step& step : *steps) {
      const auto* work = std::get_if<GraphStep>(&step.work);
      if (work != nullptr && seen.insert(work->graph.key()).second) first.push_back(&step);
    }
  }
  return first;
}

}  // namespace

TEST_CASE("A device that rounds to the buffers' types is right in every different graph") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool fuse = GENERATE(false, true);
  INFO(name_of(type) << (fuse ? ", fused" : ", unfused"));
  const Lowered lowered = training_of(nn::testing::blocks(), type, fuse);
  const Checked all = checked(lowered, 5);
  for (const Difference& difference : all.differences) FAIL_CHECK(difference.text());
  CHECK(all.graphs == first_steps(lowered).size());
}

TEST_CASE("A graph that does anything else is named, and no other") {
  const Lowered lowered = training_of(nn::testing::blocks(), DataType::kFloat16, true);
  const std::vector<const Step*> steps = first_steps(lowered);
  std::size_t tried = 0;
  for (const WrongBuffer& wrong : wrong_buffers()) {
    for (std::size_t i = 0; i < steps.size(); i += 5) {
      const Step& step = *steps[i];
      BufferId broken = step.buffers().back();
      if (lowered.buffer(broken).type == ElementType::kInt8) broken = step.buffers().front();
      // Without sums a variance is 0, and what follows is too large for 16 bits, rightly.
      if (lowered.buffer(broken).name.find(" sum") != std::string::npos) continue;
      ++tried;
      const auto fault = [&](const Step& run, const LoweredInterpreter& memory) {
        if (&run == &step) wrong.apply(memory.buffer(broken));
      };
      INFO(wrong.what << " in " << step.name << ", " << lowered.buffer(broken).name);
      const Checked found = checked(lowered, 5, fault);
      REQUIRE(!found.differences.empty());
      for (const Difference& difference : found.differences) {
        INFO(difference.text());
        CHECK(difference.step == step.name);
      }
    }
  }
  CHECK(tried > 20);
}

namespace {

nn::Convolution plain(std::uint32_t channels, std::uint32_t side) {
  return {.channels = channels, .window = {.kernel = side, .padding = side / 2}, .bias = false};
}

// Large images, a few of them; `data gradient` of the second writes what is as large.
nn::Graph large_images(std::uint32_t side) {
  nn::Graph graph({.channels = 3, .height = side, .width = side});
  nn::TensorId x = graph.add("first", plain(8, 3), {0});
  x = graph.add("firstbn", nn::BatchNorm{.relu = true}, {x});
  x = graph.add("second", plain(8, 1), {x});
  x = graph.add("secondbn", nn::BatchNorm{.relu = true}, {x});
  graph.add("fc", nn::InnerProduct{.outputs = 5}, {x});
  return graph;
}

bool is_named(const Checked& found, const std::string& step) {
  return std::any_of(found.differences.begin(), found.differences.end(),
                     [&](const Difference& difference) { return difference.step == step; });
}

// What a step's buffer becomes.
Fault in_step(const std::string& step, const std::string& buffer, const Lowered& lowered,
              const std::function<void(std::span<float>)>& apply) {
  return [=, &lowered](const Step& run, const LoweredInterpreter& memory) {
    if (run.name != step) return;
    for (const BufferId id : run.buffers()) {
      if (lowered.buffer(id).name == buffer) apply(memory.buffer(id));
    }
  };
}

}  // namespace

TEST_CASE("A device that leaves out the last pixel of every image is named") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  constexpr std::size_t kSide = 112;
  const Lowered lowered = training_of(large_images(kSide), type, true);
  const auto leave_out = [](std::span<float> values) {
    constexpr std::size_t kImage = kSide * kSide * 8;
    for (std::size_t end = kImage; end <= values.size(); end += kImage) {
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(end - 8), 8, 0.0F);
    }
  };
  const std::string step = GENERATE("first forward", "second data gradient");
  const std::string buffer = step == "first forward" ? "first output" : "second data gradient";
  INFO(name_of(type) << ", " << step);
  CHECK(is_named(checked(lowered, 5, in_step(step, buffer, lowered, leave_out)), step));
}

TEST_CASE("A device that leaves out one channel of many is named") {
  constexpr std::uint32_t kChannels = 2048;
  nn::Graph graph({.channels = 3, .height = 14, .width = 14});
  nn::TensorId x = graph.add("first", plain(kChannels, 1), {0});
  x = graph.add("firstbn", nn::BatchNorm{.relu = true}, {x});
  x = graph.add("second", plain(8, 1), {x});
  x = graph.add("secondbn", nn::BatchNorm{.relu = true}, {x});
  graph.add("fc", nn::InnerProduct{.outputs = 5}, {x});
  const Lowered lowered = training_of(graph, DataType::kFloat16, true);
  const auto leave_out = [](std::span<float> values) {
    for (std::size_t i = 3; i < values.size(); i += kChannels) values[i] = 0.0F;
  };
  const std::string step = "second data gradient";
  CHECK(is_named(checked(lowered, 5, in_step(step, step, lowered, leave_out)), step));
}

TEST_CASE("A device that adds to what is there instead of writing is named") {
  const Lowered lowered = training_of(nn::testing::blocks(), DataType::kFloat16, true);
  RoundingDevice device(lowered);
  HostMachine host;
  const std::string wrong = "b3 weight gradient";
  const auto run = [&](Pass pass, std::size_t index) {
    const Step& step = steps_of(lowered, pass)[index];
    const std::span<float> written = device.buffer(step.buffers().back());
    const std::vector<float> before(written.begin(), written.end());
    const Status status = device.run(pass, index);
    for (std::size_t i = 0; step.name == wrong && i < before.size(); ++i) written[i] += before[i];
    return status;
  };
  naive::GraphCheck<HostMachine> check(
      host, lowered, [&](BufferId id) -> void* { return device.buffer(id).data(); }, run);
  const auto differences = check.run({.input = 3, .output = 5});
  REQUIRE(differences);
  CHECK(is_named({*differences}, wrong));
}

TEST_CASE("A device that is right is so where two poolings are alike") {
  nn::Graph graph({.channels = 3, .height = 9, .width = 9});
  nn::TensorId x = graph.add("conv", plain(8, 3), {0});
  const nn::Pool pool{nn::PoolKind::kMax, {.kernel = 3, .stride = 1, .padding = 1}};
  x = graph.add("pool1", pool, {x});
  x = graph.add("conv2", plain(8, 3), {x});
  x = graph.add("pool2", pool, {x});
  graph.add("fc", nn::InnerProduct{.outputs = 5}, {x});
  const Lowered lowered = training_of(graph, DataType::kFloat16, true);
  for (const Difference& difference : checked(lowered, 5).differences) {
    FAIL_CHECK(difference.text());
  }
}

TEST_CASE("A device that writes into what it should only read is named") {
  const Lowered lowered = training_of(nn::testing::blocks(), DataType::kFloat16, true);
  const auto overwrite = [](std::span<float> values) { values.front() = values.back() = 0.0F; };
  const std::string step = "b3 data gradient";
  CHECK(is_named(checked(lowered, 5, in_step(step, "b3.weight", lowered, overwrite)), step));
}

}  // namespace phub::testing

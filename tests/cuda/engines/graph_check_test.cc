// The arithmetic that graphs of real size are checked with on a GPU, run on the host: does it agree
// with the interpreter, pass a device that only rounds, and name the step of one that is wrong?
#include "tests/cuda/engines/graph_check.h"

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

}  // namespace phub::testing

// What is fused is chosen block by block, by a device's times, which here are made up.
#include "worker/cuda/tuning/fusion_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/tuning/fusion_rig.h"

namespace phub::nn::cuda {
namespace {

TEST_CASE("Of each block the way that is cheaper is taken, and all differences are counted") {
  const std::string name = GENERATE("ResNet-20", "ResNet-50's blocks", "VGG-16's blocks",
                                    "GoogLeNet's blocks", "blocks of every kind");
  const std::uint64_t seed = GENERATE(range(1U, 6U));
  INFO(name << ", seed " << seed);
  const Graph graph = network(name);
  FakeDevice device;
  device.time = [&](const std::string& key) { return made_up(key, seed); };
  EngineCache cache = memory_cache();
  const BlockJudge judge = make_judge(device, cache, {.tune = true});
  double gained = 0.0;
  std::size_t unfused = 0;
  const auto watch = [&](const BlockAlternatives& block) -> Result<BlockVerdict> {
    PHUB_ASSIGN_OR_RETURN(const BlockVerdict verdict, judge(block));
    const double gain =
        require(device.microseconds(block.fused)) - require(device.microseconds(block.unfused));
    CHECK((verdict == BlockVerdict::kUnfused) == (gain > 0.0));
    if (verdict == BlockVerdict::kUnfused) gained += gain;
    unfused += verdict == BlockVerdict::kUnfused ? 1 : 0;
    return verdict;
  };
  const ChosenLowering chosen = require(choose_fusion(graph, {.batch = 2}, watch));
  CHECK(chosen.unfused.size() == unfused);
  CHECK(chosen.blocks >= unfused);
  const double before = device.total(require(lower(graph, {.batch = 2})));
  CHECK(device.total(chosen.lowered) == Approx(before - gained));
}

TEST_CASE("Where fused and unfused cost the same, or fused costs less, all is fused") {
  FakeDevice device;
  device.time = [](const std::string&) { return 0.0; };
  EngineCache cache = memory_cache();
  const auto chosen =
      require(choose_fusion(resnet20(10), {.batch = 2}, make_judge(device, cache, {.tune = true})));
  CHECK(chosen.unfused.empty());
  CHECK(device.measured > 0);
  CHECK(keys_of(chosen.lowered) == keys_of(require(lower(resnet20(10), {.batch = 2}))));
}

TEST_CASE("Where every fused kernel is dear, each layer has its own") {
  FakeDevice device;
  const auto plain = require(lower(resnet20(10), {.batch = 2, .fuse = false}));
  const std::vector<std::string> keys = keys_of(plain);
  const std::set<std::string> cheap(keys.begin(), keys.end());
  device.time = [&](const std::string& key) { return cheap.count(key) > 0 ? 1.0 : 1000.0; };
  EngineCache cache = memory_cache();
  const auto chosen =
      require(choose_fusion(resnet20(10), {.batch = 2}, make_judge(device, cache, {.tune = true})));
  CHECK(keys_of(chosen.lowered) == keys);
}

TEST_CASE("A prologue alone can be given up, or the statistics with all that needs them") {
  const Graph graph = testing::bottlenecks();
  FakeDevice device;
  EngineCache cache = memory_cache();
  device.time = [](const std::string& key) {
    const bool multiplies_first = key.find("multiply") < key.find("conv");
    return multiplies_first && key.find("conv") != std::string::npos ? 100.0 : 1.0;
  };
  const auto chosen =
      require(choose_fusion(graph, {.batch = 2}, make_judge(device, cache, {.tune = true})));
  CHECK(has<GenerateStatisticsOp>(chosen.lowered));
  const FusionPlan plan(graph, DataType::kFloat16, chosen.unfused);
  for (const FusionBlock& block : plan.blocks()) CHECK(block.kind != FusionKind::kPrologue);
  CHECK(!chosen.unfused.empty());

  EngineCache other = memory_cache();
  device.time = [](const std::string& key) {
    return key.find("statistics") != std::string::npos ? 100.0 : 1.0;
  };
  const auto without =
      require(choose_fusion(graph, {.batch = 2}, make_judge(device, other, {.tune = true})));
  CHECK_FALSE(has<GenerateStatisticsOp>(without.lowered));
}

std::string kernel_text(Kernel kernel) {
  return "kernel " + std::to_string(static_cast<int>(kernel)) + ' ';
}

TEST_CASE("A pooling that does a normalisation is given up by itself") {
  const Graph graph = testing::bottlenecks();
  const Kernel dear =
      GENERATE(Kernel::kScaledPool, Kernel::kScaledPoolSums, Kernel::kScaledPoolBackward);
  FakeDevice device;
  device.time = [&](const std::string& key) {
    return key.find(kernel_text(dear)) == 0 ? 100.0 : 1.0;
  };
  EngineCache cache = memory_cache();
  std::vector<std::string> names;
  const BlockJudge judge = make_judge(device, cache, {.tune = true});
  const auto watch = [&](const BlockAlternatives& block) {
    names.push_back(block.name);
    return judge(block);
  };
  const auto chosen = require(choose_fusion(graph, {.batch = 2}, watch));
  CHECK(std::find(names.begin(), names.end(), "stembn, pooling") != names.end());
  CHECK(std::count(chosen.unfused.begin(), chosen.unfused.end(),
                   FusionBlock{FusionKind::kPool, 1}) == 1);
  CHECK(has<PoolForwardOp>(chosen.lowered));
  CHECK(has<GenerateStatisticsOp>(chosen.lowered));
}

TEST_CASE("Kernels that differ by their window differ in cost") {
  const auto keys = [](const Pool& pool) {
    Graph graph({.channels = 3, .height = 8, .width = 8});
    TensorId x = testing::add_conv_norm(graph, "stem", 0, 8, {}, true);
    x = graph.add("pool", pool, {x});
    graph.add("fc", InnerProduct{.outputs = 8}, {x});
    const Lowered lowered = require(lower(graph, {.batch = 2}));
    std::set<std::string> all;
    for (const std::string& key : keys_of(lowered)) {
      for (const Kernel kernel : {Kernel::kScaledPool, Kernel::kScaledPoolBackward}) {
        if (key.find(kernel_text(kernel)) == 0) all.insert(key);
      }
    }
    CHECK(all.size() == 2);
    return all;
  };
  std::set<std::string> both = keys({PoolKind::kMax, {.kernel = 2, .stride = 2}});
  both.merge(keys({PoolKind::kMax, {.kernel = 3, .stride = 2}, true}));
  CHECK(both.size() == 4);
}

}  // namespace
}  // namespace phub::nn::cuda

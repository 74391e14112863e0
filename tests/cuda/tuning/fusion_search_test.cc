// What is fused is chosen block by block: by a device's times, which here are made up, and whatever
// is chosen computes what the unfused network computes.
#include "worker/cuda/tuning/fusion_search.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/cuda/networks.h"
#include "tests/cuda/support/lowered_interpreter.h"
#include "tests/cuda/tuning/fusion_networks.h"
#include "worker/nn/models/models.h"

namespace phub::nn::cuda {
namespace {

using phub::testing::LoweredInterpreter;

const EngineScope kScope{91900, "a device of a test"};

template <typename T>
T require(Result<T> result) {
  INFO((result ? std::string() : result.error().message()));
  REQUIRE(result);
  return std::move(*result);
}

// The same for equal texts, between 1 and 2.
double made_up(const std::string& text, std::uint64_t seed) {
  const std::uint64_t hash = std::hash<std::string>{}(std::to_string(seed) + text);
  return 1.0 + static_cast<double>(hash % 4096) / 4096.0;
}

template <typename Op>
bool has(const OpGraph& graph) {
  return std::any_of(
      graph.operations().begin(), graph.operations().end(),
      [](const Operation& operation) { return std::holds_alternative<Op>(operation); });
}

template <typename Op>
bool has(const Lowered& lowered) {
  for (const auto* steps : {&lowered.forward, &lowered.backward}) {
    for (const Step& step : *steps) {
      const auto* graph = std::get_if<GraphStep>(&step.work);
      if (graph != nullptr && has<Op>(graph->graph)) return true;
    }
  }
  return false;
}

class FakeDevice : public StepDevice {
 public:
  Status supports(const OpGraph& graph) override {
    return lacks(graph) ? Status(Code::kNotFound, "no engine for it") : Status();
  }
  Result<double> microseconds(const BlockWay& way) override {
    ++measured;
    double sum = 0.0;
    for (const Step* step : way.steps) {
      const auto* graph = std::get_if<GraphStep>(&step->work);
      if (graph != nullptr && fails(graph->graph)) return Status(Code::kInternal, "it fell over");
      sum += time(cost_key(*way.lowered, *step));
    }
    return sum;
  }
  double total(const Lowered& lowered) const {
    double sum = 0.0;
    for (const auto* steps : {&lowered.forward, &lowered.backward}) {
      for (const Step& step : *steps) sum += time(cost_key(lowered, step));
    }
    return sum;
  }

  std::function<double(const std::string& key)> time = [](const std::string&) { return 1.0; };
  std::function<bool(const OpGraph&)> lacks = [](const OpGraph&) { return false; };
  std::function<bool(const OpGraph&)> fails = [](const OpGraph&) { return false; };
  std::size_t measured = 0;
};

std::vector<std::string> keys_of(const Lowered& lowered) {
  std::vector<std::string> keys;
  for (const auto* steps : {&lowered.forward, &lowered.backward, &lowered.inference}) {
    for (const Step& step : *steps) keys.push_back(cost_key(lowered, step));
  }
  return keys;
}

EngineCache memory_cache() { return require(EngineCache::open({}, kScope)); }

Graph network(const std::string& name) {
  if (name == "ResNet-20") return resnet20(10);
  if (name == "ResNet-50's blocks") return testing::bottlenecks();
  if (name == "VGG-16's blocks") return testing::vgg_blocks();
  if (name == "GoogLeNet's blocks") return testing::inceptions();
  return testing::blocks();
}

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

TEST_CASE("What was measured is remembered, and chosen again without a measurement") {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("phub_fusion_search_" + std::to_string(::getpid()));
  std::filesystem::remove(file);
  const Graph graph = testing::bottlenecks();
  FakeDevice device;
  device.time = [](const std::string& key) { return made_up(key, 7); };
  std::vector<FusionBlock> first;
  {
    EngineCache cache = require(EngineCache::open(file, kScope));
    first = require(choose_fusion(graph, {.batch = 2}, make_judge(device, cache, {.tune = true})))
                .unfused;
    const auto again =
        require(choose_fusion(graph, {.batch = 2}, make_judge(device, cache, {.tune = true})));
    CHECK(again.unfused == first);
  }
  CHECK(!first.empty());
  device.measured = 0;
  device.time = [](const std::string&) { return std::numeric_limits<double>::quiet_NaN(); };
  EngineCache cache = require(EngineCache::open(file, kScope));
  const auto planned = require(choose_fusion(graph, {.batch = 2}, make_judge(device, cache, {})));
  CHECK(planned.unfused == first);
  const auto tuned =
      require(choose_fusion(graph, {.batch = 2}, make_judge(device, cache, {.tune = true})));
  CHECK(tuned.unfused == first);
  CHECK(device.measured == 0);
  const auto forced = require(
      choose_fusion(graph, {.batch = 2}, make_judge(device, cache, {.fusion = Fusion::kFused})));
  CHECK(forced.unfused.empty());
  // Of another device nothing is known: fused.
  EngineCache elsewhere = require(EngineCache::open(file, {kScope.cudnn_version, "another"}));
  CHECK(require(choose_fusion(graph, {.batch = 2}, make_judge(device, elsewhere, {})))
            .unfused.empty());
  std::filesystem::remove(file);
}

TEST_CASE("What no engine takes is not fused, and that is said") {
  const bool tune = GENERATE(false, true);
  const Fusion fusion = GENERATE(Fusion::kTuned, Fusion::kFused);
  std::vector<std::string> notes;
  const auto choose = [&](FakeDevice& device) {
    EngineCache cache = memory_cache();
    return require(choose_fusion(
        testing::bottlenecks(), {.batch = 2},
        make_judge(device, cache,
                   {.fusion = fusion, .tune = tune, .note = [&](std::string_view note) {
                      notes.emplace_back(note);
                    }})));
  };
  SECTION("the sums of backward") {
    FakeDevice device;
    device.lacks = [](const OpGraph& graph) { return has<BatchNormBackwardWeightsOp>(graph); };
    const auto chosen = choose(device);
    CHECK_FALSE(has<BatchNormBackwardWeightsOp>(chosen.lowered));
    CHECK(has<GenerateStatisticsOp>(chosen.lowered));
    REQUIRE(!notes.empty());
    CHECK_THAT(notes.front(), Catch::Contains("is not fused: no engine for it"));
  }
  SECTION("the sums of forward, without which a prologue cannot be either") {
    FakeDevice device;
    device.lacks = [](const OpGraph& graph) { return has<GenerateStatisticsOp>(graph); };
    CHECK_FALSE(has<GenerateStatisticsOp>(choose(device).lowered));
  }
  SECTION("nothing at all") {
    FakeDevice device;
    device.lacks = [](const OpGraph&) { return true; };
    // Planning then names the graph.
    CHECK_FALSE(has<GenerateStatisticsOp>(choose(device).lowered));
  }
}

TEST_CASE("The search is saved where it could decide nothing") {
  const Lowered fused = require(lower(testing::bottlenecks(), {.batch = 2}));
  FakeDevice device;
  EngineCache cache = memory_cache();
  CHECK(fuses_all(device, cache, {}, fused));
  CHECK_FALSE(fuses_all(device, cache, {.tune = true}, fused));
  CHECK(fuses_all(device, cache, {.fusion = Fusion::kFused, .tune = true}, fused));
  REQUIRE(cache.add_block("some", "of another network", {1.0, 2.0}).ok());
  CHECK_FALSE(fuses_all(device, cache, {}, fused));
  CHECK(fuses_all(device, cache, {.fusion = Fusion::kFused}, fused));
  device.lacks = [](const OpGraph& graph) { return has<BatchNormBackwardWeightsOp>(graph); };
  CHECK_FALSE(fuses_all(device, cache, {.fusion = Fusion::kFused}, fused));
}

TEST_CASE("A measurement that fails is told with its reason, and the other way is taken") {
  FakeDevice device;
  std::vector<std::string> notes;
  device.fails = [](const OpGraph& graph) { return has<BatchNormBackwardWeightsOp>(graph); };
  EngineCache cache = require(EngineCache::open("/nowhere/engines.jsonl", kScope));
  const auto chosen = require(
      choose_fusion(testing::bottlenecks(), {.batch = 2},
                    make_judge(device, cache, {.tune = true, .note = [&](std::string_view note) {
                                                 notes.emplace_back(note);
                                               }})));
  CHECK_FALSE(has<BatchNormBackwardWeightsOp>(chosen.lowered));
  const auto count = [&](const std::string& words) {
    return std::count_if(notes.begin(), notes.end(), [&](const std::string& note) {
      return note.find(words) != std::string::npos;
    });
  };
  CHECK(count("could not be measured fused: it fell over") > 0);
  CHECK(count("lost with this run") == 1);
  CHECK(count("/nowhere/engines.jsonl") == 1);
  // Nor is it tried by a run that does not measure.
  const auto planned =
      require(choose_fusion(testing::bottlenecks(), {.batch = 2}, make_judge(device, cache, {})));
  CHECK(planned.unfused == chosen.unfused);
}

// A step's results on the host.
struct Computed {
  std::map<std::string, std::vector<float>> arrays;
};

Computed compute(const Graph& graph, const Lowered& lowered, std::uint32_t batch) {
  LoweredInterpreter interpreter(lowered, 12345);
  std::mt19937 random(3);
  const auto draw = [&](std::size_t elements, double bound) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(elements);
    for (float& value : values) value = static_cast<float>(bound) * uniform(random);
    return values;
  };
  for (std::size_t key = 0; key < lowered.parameters.size(); ++key) {
    const ParameterLayout& p = lowered.parameters[key];
    const double fan_in = static_cast<double>(p.c * p.pixels);
    interpreter.write_parameter(
        key, draw(static_cast<std::size_t>(p.k * p.c * p.pixels), std::sqrt(3.0 / fan_in)));
  }
  const std::int64_t classes = graph.output_shape().channels;
  interpreter.write_image(lowered.input, draw(batch * graph.input_shape().elements(), 1.0),
                          graph.input_shape().channels);
  Computed all;
  interpreter.run(lowered.inference);
  all.arrays["inference"] = interpreter.read_image(lowered.inference_output, classes);
  interpreter.run(lowered.forward);
  all.arrays["forward"] = interpreter.read_image(lowered.output, classes);
  interpreter.write_image(lowered.output_gradient,
                          draw(batch * static_cast<std::size_t>(classes), 1.0), classes);
  interpreter.run(lowered.backward);
  all.arrays["input gradient"] =
      interpreter.read_image(lowered.input_gradient, graph.input_shape().channels);
  for (std::size_t key = 0; key < lowered.parameters.size(); ++key) {
    all.arrays["gradient of " + lowered.parameters[key].name] = interpreter.read_gradient(key);
  }
  for (const StateLayout& state : lowered.states) {
    const std::span<float> values = interpreter.buffer(state.buffer);
    all.arrays[state.name].assign(values.begin(), values.begin() + state.channels);
  }
  return all;
}

void check_same(const Computed& is, const Computed& expected, double tolerance) {
  REQUIRE(is.arrays.size() == expected.arrays.size());
  for (const auto& [name, values] : expected.arrays) {
    const std::vector<float>& own = is.arrays.at(name);
    REQUIRE(own.size() == values.size());
    // In the Euclidean norm: where a rounding error decides a ReLU, one element is another.
    double differences = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      differences += std::pow(double{own[i]} - double{values[i]}, 2);
      squares += std::pow(double{values[i]}, 2);
    }
    INFO(name << ": relative difference " << std::sqrt(differences / squares));
    CHECK(differences <= tolerance * tolerance * squares);
  }
}

TEST_CASE("Mixtures of fused and unfused blocks compute what the unfused network computes") {
  const std::string name = GENERATE("ResNet-20", "ResNet-50's blocks", "VGG-16's blocks",
                                    "GoogLeNet's blocks", "blocks of every kind");
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool is_large = name == "ResNet-20";
  const std::uint32_t batch = is_large ? 2 : 3;
  const Graph graph = network(name);
  const LoweringOptions options{.batch = batch, .compute_type = type, .input_gradient = true};
  LoweringOptions plain = options;
  plain.fuse = false;
  const Computed expected = compute(graph, require(lower(graph, plain)), batch);
  std::size_t mixed = 0;
  for (unsigned seed = 0; seed < (is_large ? 2U : 12U); ++seed) {
    INFO(name << ", " << name_of(type) << ", seed " << seed);
    std::mt19937 random(seed);
    const auto any = [&](const BlockAlternatives&) -> Result<BlockVerdict> {
      return random() % 3 == 0 ? BlockVerdict::kUnfused : BlockVerdict::kFused;
    };
    const ChosenLowering chosen = require(choose_fusion(graph, options, any));
    if (!chosen.unfused.empty() && chosen.unfused.size() < chosen.blocks) ++mixed;
    check_same(compute(graph, chosen.lowered, batch), expected, is_large ? 2e-3 : 2e-4);
  }
  CHECK(mixed > 0);
}

}  // namespace
}  // namespace phub::nn::cuda

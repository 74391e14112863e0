// What of a search is remembered, and what it does where a device refuses, fails or is not asked.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/cuda/tuning/fusion_rig.h"

namespace phub::nn::cuda {
namespace {

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

}  // namespace
}  // namespace phub::nn::cuda

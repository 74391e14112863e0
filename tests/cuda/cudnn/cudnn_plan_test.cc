// The wrapper over cuDNN's graph API, planning for an H200 that is not there.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/cuda/cudnn/planner.h"
#include "worker/cuda/cudnn/concurrent_planner.h"
#include "worker/cuda/cudnn/plan.h"
#include "worker/cuda/cudnn/wrong_engines.h"
#include "worker/cuda/lowered/op_graph.h"

using namespace phub;
using namespace phub::nn::cuda;
using testing::Planner;

namespace {

constexpr std::int64_t kMebibyte = 1 << 20;
constexpr ElementType kHalf = ElementType::kFloat16;
constexpr ElementType kSingle = ElementType::kFloat32;

// A 3 x 3 convolution of 64 channels, and the sums that batch normalisation wants of its output.
OpGraph convolution_with_statistics() {
  OpGraph graph("conv and statistics");
  const OperandId x = graph.device({32, 64, 56, 56}, kHalf);
  const OperandId w = graph.device({64, 64, 3, 3}, kHalf);
  const OperandId y = graph.device({32, 64, 56, 56}, kHalf);
  graph.add(ConvolutionOp{.image = x,
                          .weights = w,
                          .output = y,
                          .window = {.size = {3, 3}, .pad_before = {1, 1}, .pad_after = {1, 1}}});
  const OperandId sum = graph.device({1, 64, 1, 1}, kSingle);
  graph.add(GenerateStatisticsOp{y, sum, graph.device({1, 64, 1, 1}, kSingle)});
  return graph;
}

}  // namespace

TEST_CASE("A fused graph is planned for a described device, and again from its engine and knobs") {
  const Planner planner;
  const OpGraph graph = convolution_with_statistics();
  const auto found = candidates(planner.target(), graph, EngineSearch::kThorough);
  INFO(found.error().message());
  REQUIRE(found);
  REQUIRE(found->size() > 1);

  const auto plan = plan_first(planner.target(), graph, *found, 256 * kMebibyte);
  INFO(plan.error().message());
  REQUIRE(plan);
  const auto again = CudnnPlan::create(planner.target(), graph, (*plan)->choice());
  INFO(again.error().message());
  REQUIRE(again);
  CHECK((*again)->workspace_bytes() == (*plan)->workspace_bytes());
}

TEST_CASE("Engines planned at the same time are those planned one by one") {
  const Planner planner;
  const OpGraph graph = convolution_with_statistics();
  const auto found = candidates(planner.target(), graph, EngineSearch::kThorough);
  REQUIRE(found);
  std::vector<EngineCandidate> many;  // more than there are threads
  for (int i = 0; i < 3; ++i) many.insert(many.end(), found->begin(), found->end());
  REQUIRE(many.size() > 3);
  std::size_t made = 0;
  const auto together =
      ConcurrentPlanner::create({.threads = 4,
                                 .make_target = [&]() -> Result<std::unique_ptr<CudnnTarget>> {
                                   if (++made > 3)
                                     return Status(Code::kResourceExhausted, "no more");
                                   return planner.another();
                                 },
                                 .begin_thread = [&]() -> Status {
                                   static std::atomic<int> begun{0};
                                   if (++begun % 2 == 0)
                                     return {Code::kInternal, "this thread has no device"};
                                   return {};
                                 }});
  REQUIRE(together);
  CHECK((*together)->threads() == 3);
  std::vector<Result<std::unique_ptr<CudnnPlan>>> alone;
  for (const EngineCandidate& each : *found) {
    alone.push_back(CudnnPlan::create(planner.target(), graph, each.choice));
  }
  const auto engines = (*together)->plan(graph, many);
  REQUIRE(engines.size() == many.size());
  for (std::size_t i = 0; i < engines.size(); ++i) {
    INFO("engine " << i);
    const auto& expected = alone[i % alone.size()];
    CHECK(engines[i].choice == many[i].choice);
    REQUIRE((engines[i].plan != nullptr) == static_cast<bool>(expected));
    REQUIRE(engines[i].target != nullptr);
    if (expected) {
      CHECK(engines[i].plan->workspace_bytes() == (*expected)->workspace_bytes());
    } else {
      CHECK(engines[i].why.message() == expected.error().message());
    }
  }
  CHECK((*together)->plan(graph, {}).empty());
}

TEST_CASE("What cuDNN refuses is an error with the graph's name and cuDNN's words") {
  const Planner planner;
  OpGraph graph("mismatched");
  const OperandId x = graph.device({32, 64, 56, 56}, kHalf);
  const OperandId w = graph.device({64, 48, 3, 3}, kHalf);  // 48 divides no 64
  graph.add(ConvolutionOp{.image = x, .weights = w, .output = x, .window = {.size = {3, 3}}});
  const auto found = candidates(planner.target(), graph, EngineSearch::kThorough);
  REQUIRE_FALSE(found);
  CHECK_THAT(found.error().message(),
             Catch::Contains("\"mismatched\"") && Catch::Contains("CUDNN_STATUS_"));
}

TEST_CASE("An engine that does not exist is refused, as a workspace above the limit is") {
  const Planner planner;
  const OpGraph graph = convolution_with_statistics();
  CHECK_FALSE(CudnnPlan::create(planner.target(), graph, {.engine = 9999, .knobs = {}}));

  const auto found = candidates(planner.target(), graph, EngineSearch::kThorough);
  REQUIRE(found);
  const auto plan = plan_first(planner.target(), graph, *found, -1);
  REQUIRE_FALSE(plan);
  CHECK_THAT(plan.error().message(), Catch::Contains("above the limit of -1"));
}

TEST_CASE("A device describes itself as it was described") {
  const Planner planner;
  const auto json = planner.target().describe();
  INFO(json.error().message());
  REQUIRE(json);
  CHECK_THAT(*json, Catch::Contains("NVIDIA H200"));
}

TEST_CASE("A missing cuDNN is told with the cure and the places that were tried") {
  const auto opened = CudnnLibrary::open({"/nowhere"});
  // Where cuDNN is installed the linker's search finds it after the folders that were named.
  if (opened) {
    CHECK((*opened)->version() >= 90800);
  } else {
    CHECK_THAT(opened.error().message(), Catch::Contains("/nowhere/lib/libcudnn.so.9: not there") &&
                                             Catch::Contains("PHUB_CUDA_PATH"));
  }
}

TEST_CASE("Equal graphs have equal keys, and the key tells what decides the engine") {
  const OpGraph graph = convolution_with_statistics();
  CHECK(graph.key() == convolution_with_statistics().key());
  CHECK(graph.key() ==
        "0:fp16[32,64,56,56] 1:fp16[64,64,3,3] 2:fp16[32,64,56,56] 3:fp32[1,64,1,1] "
        "4:fp32[1,64,1,1]; conv(0 1 2) window 3x3 stride 1x1 pad 1x1 1x1; statistics(2 3 4)");
}

TEST_CASE("An engine that is known to compute wrong values is neither proposed nor planned") {
  const Planner planner;
  const auto pooling = [](ElementType type, PoolMode mode, bool keeps_index) {
    OpGraph graph("pooling");
    const OperandId x = graph.device({16, 16, 8, 8}, type);
    const OperandId y = graph.device({16, 16, 4, 4}, type);
    const OperandId index =
        keeps_index ? graph.device({16, 16, 4, 4}, ElementType::kInt8) : OperandId{x};
    graph.add(PoolForwardOp{mode, x, y, index, {.size = {2, 2}, .stride = {2, 2}}});
    return graph;
  };
  const EngineChoice third{.engine = 3, .knobs = {}};
  const auto proposes = [&](const OpGraph& graph, std::int64_t engine) {
    const auto found = candidates(planner.target(), graph, EngineSearch::kThorough);
    REQUIRE(found);
    return std::any_of(found->begin(), found->end(), [&](const EngineCandidate& candidate) {
      return candidate.choice.engine == engine;
    });
  };
  for (const PoolMode mode : {PoolMode::kMax, PoolMode::kAverageWithPadding}) {
    const OpGraph graph = pooling(ElementType::kBfloat16, mode, false);
    CHECK_FALSE(proposes(graph, 3));
    CHECK(proposes(graph, 2));
    const auto plan = CudnnPlan::create(planner.target(), graph, third);
    REQUIRE_FALSE(plan);
    CHECK_THAT(plan.error().message(), Catch::Contains("engine 3 pools bf16 wrongly"));
    CHECK(why_wrong(pooling(kHalf, mode, false), third).empty());
  }
  CHECK(why_wrong(pooling(ElementType::kBfloat16, PoolMode::kMax, true), third).empty());
}

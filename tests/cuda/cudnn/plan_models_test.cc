// Every cuDNN graph of every model is taken by an engine on an H200, found out without one.
//
// Each different graph is asked about once. Where cuDNN brings a finished kernel the graph is
// planned with it; where it would compile one, that is done for the first graph of each pattern
// (half a second each), and for the others the heuristics' word, which checks shapes and types, is
// taken.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/cuda/cudnn/planner.h"
#include "worker/cuda/cudnn/plan.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/cuda/tuning/fusion_search.h"
#include "worker/nn/models/models.h"

namespace phub::nn::cuda {
namespace {

constexpr std::uint32_t kBatch = 256;
constexpr std::int64_t kWorkspaceLimit = std::int64_t{1} << 30;

// The graph without its sizes and windows: types and operations in their order.
std::string pattern_of(const OpGraph& graph) {
  return std::regex_replace(graph.key(), std::regex("\\[[^\\]]*\\]| window [^;]*"), "");
}

// cuDNN has compiled the kernel and finds no device to load it on: all that can be had here.
bool only_lacks_device(const Status& status) {
  return status.message().find("cuLibraryLoadData") != std::string::npos;
}

struct Answer {
  std::string miss = {};  // empty: an engine takes it
  bool compiled_at_run_time = false;
  std::int64_t workspace_bytes = 0;  // of finished kernels
};

class Survey {
 public:
  const Answer& ask(const OpGraph& graph) {
    const auto [place, is_new] = answers_.try_emplace(graph.key());
    if (is_new) place->second = find_out(graph);
    return place->second;
  }
  std::size_t graphs() const { return answers_.size(); }
  std::size_t compiled() const { return patterns_.size(); }

 private:
  Answer find_out(const OpGraph& graph) {
    const auto found = candidates(planner_.target(), graph, EngineSearch::kQuick);
    if (!found) return {.miss = found.error().message()};
    if (found->empty()) return {.miss = "no engine takes \"" + graph.name() + "\""};
    std::vector<EngineCandidate> finished;
    std::copy_if(found->begin(), found->end(), std::back_inserter(finished),
                 [](const EngineCandidate& candidate) { return !candidate.compiled_at_run_time; });
    if (!finished.empty()) {
      const auto plan = plan_first(planner_.target(), graph, finished, kWorkspaceLimit);
      if (plan) return {.workspace_bytes = (*plan)->workspace_bytes()};
      if (finished.size() == found->size()) return {.miss = plan.error().message()};
    }
    if (!patterns_.insert(pattern_of(graph)).second) return {.compiled_at_run_time = true};
    const auto first = std::find_if(
        found->begin(), found->end(),
        [](const EngineCandidate& candidate) { return candidate.compiled_at_run_time; });
    const auto plan = CudnnPlan::create(planner_.target(), graph, first->choice);
    if (plan || only_lacks_device(plan.error())) return {.compiled_at_run_time = true};
    return {.miss = plan.error().message()};
  }

  testing::Planner planner_;
  std::map<std::string, Answer> answers_;
  std::set<std::string> patterns_;  // of which one was compiled
};

struct Tally {
  std::set<std::string> graphs;
  std::size_t compiled_at_run_time = 0;
  std::int64_t workspace_bytes_max = 0;
};

void tally(Survey& survey, const std::vector<Step>& steps, Tally& tally) {
  for (const Step& step : steps) {
    const auto* graph = std::get_if<GraphStep>(&step.work);
    if (graph == nullptr || !tally.graphs.insert(graph->graph.key()).second) continue;
    const Answer& answer = survey.ask(graph->graph);
    INFO(answer.miss << "\n" << graph->graph.key());
    CHECK(answer.miss.empty());
    tally.compiled_at_run_time += answer.compiled_at_run_time ? 1 : 0;
    tally.workspace_bytes_max = std::max(tally.workspace_bytes_max, answer.workspace_bytes);
  }
}

TEST_CASE("Every graph of every model is taken by an engine of cuDNN on an H200") {
  Survey survey;
  std::printf("%-14s %-5s %-8s %8s %12s %14s\n", "model", "type", "lowering", "graphs",
              "at run time", "workspace MiB");
  for (const ModelInfo& model : model_list()) {
    const auto graph = make_model(model.name);
    REQUIRE(graph);
    // Each type with one lowering: all four take twice the time, and the next test has them.
    for (const auto& [type, fuse] :
         {std::pair(DataType::kBfloat16, true), std::pair(DataType::kFloat16, false)}) {
      const auto lowered = lower(*graph, {.batch = kBatch, .compute_type = type, .fuse = fuse});
      INFO(model.name << ": " << lowered.error().message());
      REQUIRE(lowered);
      Tally counted;
      for (const auto* steps : {&lowered->forward, &lowered->backward, &lowered->inference}) {
        tally(survey, *steps, counted);
      }
      std::printf("%-14s %-5s %-8s %8zu %12zu %14.1f\n", std::string(model.name).c_str(),
                  std::string(name_of(type)).c_str(), fuse ? "fused" : "unfused",
                  counted.graphs.size(), counted.compiled_at_run_time,
                  static_cast<double>(counted.workspace_bytes_max) / (1 << 20));
      std::fflush(stdout);
    }
  }
  std::printf("%zu different graphs, %zu patterns compiled\n", survey.graphs(), survey.compiled());
}

TEST_CASE("Both ways of every block that may be fused or not are taken by an engine on an H200") {
  Survey survey;
  const auto graph = make_model("resnet50");
  REQUIRE(graph);
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    std::size_t asked = 0;
    const auto ask = [&](const BlockAlternatives& block) -> Result<BlockVerdict> {
      for (const BlockWay* way : {&block.fused, &block.unfused}) {
        for (const Step* step : way->steps) {
          const auto* own = std::get_if<GraphStep>(&step->work);
          if (own == nullptr) continue;
          ++asked;
          const Answer& answer = survey.ask(own->graph);
          INFO(name_of(type) << ", " << block.name << ": " << answer.miss << "\n"
                             << own->graph.key());
          CHECK(answer.miss.empty());
        }
      }
      return BlockVerdict::kFused;
    };
    const auto chosen = choose_fusion(*graph, {.batch = kBatch, .compute_type = type}, ask);
    REQUIRE(chosen);
    CHECK(chosen->unfused.empty());
    CHECK(asked > 100);
    std::printf("resnet50 %s: %zu blocks, %zu different graphs so far\n",
                std::string(name_of(type)).c_str(), chosen->blocks, survey.graphs());
  }
}

}  // namespace
}  // namespace phub::nn::cuda

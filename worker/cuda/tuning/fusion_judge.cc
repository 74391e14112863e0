// What is decided about a block: by the cache, by measuring, by what engines there are.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/tuning/fusion_search.h"

namespace phub::nn::cuda {
namespace {

// Microseconds of what fails, so that it is not tried by a run that does not measure.
constexpr double kNever = 1e15;

class Judge {
 public:
  Judge(StepDevice& device, EngineCache& cache, JudgeOptions options)
      : device_(device), cache_(cache), options_(std::move(options)) {}

  Result<BlockVerdict> judge(const BlockAlternatives& block) {
    if (const auto known = verdicts_.find(block.key); known != verdicts_.end()) {
      return known->second;
    }
    const BlockVerdict verdict = find_out(block);
    verdicts_.emplace(block.key, verdict);
    return verdict;
  }

 private:
  BlockVerdict find_out(const BlockAlternatives& block) {
    const Status fused = runs(block.fused);
    if (!fused.ok() && !runs(block.unfused).ok()) return BlockVerdict::kNeither;
    if (!fused.ok()) {
      options_.note(block.name + " is not fused: " + fused.message());
      return BlockVerdict::kUnfused;
    }
    if (options_.fusion == Fusion::kFused) return BlockVerdict::kFused;
    if (const auto known = cache_.find_block(block.key)) return verdict_of(*known);
    return options_.tune ? measured(block) : BlockVerdict::kFused;
  }

  Status runs(const BlockWay& way) {
    for (const Step* step : way.steps) {
      const auto* graph = std::get_if<GraphStep>(&step->work);
      if (graph != nullptr) PHUB_RETURN_IF_ERROR(device_.supports(graph->graph));
    }
    return {};
  }

  BlockVerdict measured(const BlockAlternatives& block) {
    const auto fused = device_.microseconds(block.fused);
    const auto unfused = device_.microseconds(block.unfused);
    if (!fused) tell_failure(block, "fused", fused.error());
    if (!unfused) tell_failure(block, "unfused", unfused.error());
    if (!fused && !unfused) return BlockVerdict::kNeither;
    if (!unfused) return BlockVerdict::kFused;
    if (!fused && fused.error().code() == Code::kResourceExhausted) return BlockVerdict::kUnfused;
    return remembered(block, {fused ? *fused : kNever, *unfused});
  }

  BlockVerdict remembered(const BlockAlternatives& block, const MeasuredBlock& times) {
    const Status kept = cache_.add_block(block.key, block.name, times);
    // The choice is good for this run.
    if (!kept.ok() && !std::exchange(told_, true)) {
      options_.note("what is measured is lost with this run: " + kept.message());
    }
    return verdict_of(times);
  }

  void tell_failure(const BlockAlternatives& block, const std::string& way, const Status& why) {
    options_.note(block.name + " could not be measured " + way + ": " + why.message());
  }

  static BlockVerdict verdict_of(const MeasuredBlock& times) {
    return times.is_fused() ? BlockVerdict::kFused : BlockVerdict::kUnfused;
  }

  StepDevice& device_;
  EngineCache& cache_;
  JudgeOptions options_;
  std::map<std::string, BlockVerdict> verdicts_;
  bool told_ = false;
};

}  // namespace

bool fuses_all(StepDevice& device, const EngineCache& cache, const JudgeOptions& options,
               const Lowered& fused) {
  const bool decides = options.fusion == Fusion::kTuned && (options.tune || cache.has_blocks());
  if (decides) return false;
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kInference}) {
    for (const Step& step : steps_of(fused, pass)) {
      const auto* graph = std::get_if<GraphStep>(&step.work);
      if (graph != nullptr && !device.supports(graph->graph).ok()) return false;
    }
  }
  return true;
}

BlockJudge make_judge(StepDevice& device, EngineCache& cache, const JudgeOptions& options) {
  const auto judge = std::make_shared<Judge>(device, cache, options);
  return [judge](const BlockAlternatives& block) { return judge->judge(block); };
}

}  // namespace phub::nn::cuda

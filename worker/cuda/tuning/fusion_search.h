// Which blocks of a network are fused: each one's cheaper way, by what a device says of both.
//
// Blocks (FusionBlock) touch their neighbours: a prologue takes the sums of the convolution before,
// and giving up those gives up the prologue too. So blocks are looked at one after the other,
// beginning with everything fused and first those that others do not need (the order of
// FusionKind): the network is lowered with the block and without it, all else as decided so far,
// and the steps in which the two differ are what the block costs in either way. A block that others
// need is so judged with all that goes with it. That is a greedy search: it never takes a way that
// is dearer where it is looked at, and may miss two blocks that pay only when both are given up.
// Equal blocks (equal steps in both ways) have one key and one verdict, so that a run which
// remembers the verdicts repeats the search step by step. Deterministic; host code without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/lowering/fusion.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/cuda/tuning/engine_cache.h"
#include "worker/nn/graph/graph.h"
#include "worker/nn/plugin.h"

namespace phub::nn::cuda {

// One of a block's two ways: steps of a lowering, in the order in which they run. What both ways do
// alike is left out.
struct BlockWay {
  const Lowered* lowered = nullptr;
  std::vector<const Step*> steps = {};
};

struct BlockAlternatives {
  std::string name;  // "layer1.0.bn1, prologue"
  std::string key;   // a hash of both ways' steps
  BlockWay fused, unfused;
};

enum class BlockVerdict : std::uint8_t { kFused, kUnfused, kNeither };  // kNeither: none can run

using BlockJudge = std::function<Result<BlockVerdict>(const BlockAlternatives& block)>;

struct ChosenLowering {
  Lowered lowered;
  std::size_t blocks = 0;                 // that differ in their two ways
  std::vector<FusionBlock> unfused = {};  // of them
};

// `options.fuse` and `options.unfused` are replaced. Where neither way can run, another block of
// those steps may be why; if none is, the block is not fused. Errors: lower()'s and the judge's.
// `progress` is told before each block: which of how many.
Result<ChosenLowering> choose_fusion(
    const Graph& graph, const LoweringOptions& options, const BlockJudge& judge,
    const std::function<void(std::size_t, std::size_t)>& progress = [](std::size_t, std::size_t) {
    });

// What a device says of steps.
class StepDevice {
 public:
  StepDevice() = default;
  StepDevice(const StepDevice&) = delete;
  StepDevice& operator=(const StepDevice&) = delete;
  virtual ~StepDevice() = default;

  // Whether an engine takes the graph: kNotFound and why.
  virtual Status supports(const OpGraph& graph) = 0;
  // Of all steps one after the other, once, with the engines that a run would take and with the
  // lowering's buffers where a run would have them.
  virtual Result<double> microseconds(const BlockWay& way) = 0;
};

struct JudgeOptions {
  Fusion fusion = Fusion::kTuned;  // kFused: only what no engine takes is not fused
  bool tune = false;               // measures blocks that the cache does not know
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

// Takes the cache's word, else measures both ways and tells the cache, else fuses. What no engine
// takes or what cannot be measured is done in the other way, with a note. The device and the cache
// outlive it.
BlockJudge make_judge(StepDevice& device, EngineCache& cache, const JudgeOptions& options);

// Whether such a judge would have nothing to say against a network in which all is fused, which
// saves the search: nothing is measured or known, and engines take all of its graphs.
bool fuses_all(StepDevice& device, const EngineCache& cache, const JudgeOptions& options,
               const Lowered& fused);

// Equal texts, equal work: what a step costs.
std::string cost_key(const Lowered& lowered, const Step& step);

}  // namespace phub::nn::cuda

#include "worker/cuda/tuning/fusion_search.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "worker/cuda/lowered/runner.h"

namespace phub::nn::cuda {
namespace {

const char* word(FusionKind kind) {
  switch (kind) {
    case FusionKind::kRelu:
      return "ReLU";
    case FusionKind::kPrologue:
      return "prologue";
    case FusionKind::kAddend:
      return "addend";
    case FusionKind::kPool:
      return "pooling";
    case FusionKind::kBackwardSums:
      return "sums of backward";
    case FusionKind::kMask:
      return "masked data gradient";
    case FusionKind::kStatistics:
      return "statistics";
    case FusionKind::kSums:
      return "sums";
  }
  return "?";
}

bool is_same_kernel(const Lowered& a, const KernelStep& x, const Lowered& b, const KernelStep& y) {
  if (x.kernel != y.kernel || x.buffers.size() != y.buffers.size() || x.count != y.count ||
      x.channels != y.channels || x.from != y.from || x.to != y.to || x.clear_to != y.clear_to ||
      x.stride != y.stride || !(x.window == y.window)) {
    return false;
  }
  return std::equal(x.buffers.begin(), x.buffers.end(), y.buffers.begin(),
                    [&](BufferId first, BufferId second) {
                      return a.buffer(first).type == b.buffer(second).type &&
                             a.buffer(first).dimensions == b.buffer(second).dimensions;
                    });
}

bool is_same(const Lowered& a, const Step& x, const Lowered& b, const Step& y) {
  const auto* first = std::get_if<GraphStep>(&x.work);
  const auto* second = std::get_if<GraphStep>(&y.work);
  if ((first == nullptr) != (second == nullptr)) return false;
  if (first != nullptr) return first->graph.is_same(second->graph);
  return is_same_kernel(a, std::get<KernelStep>(x.work), b, std::get<KernelStep>(y.work));
}

using Counts = std::map<std::string, std::size_t>;

// The steps from `first` on, without `behind` at the end.
std::span<const Step> middle(const std::vector<Step>& steps, std::size_t first,
                             std::size_t behind) {
  return std::span(steps).subspan(first, steps.size() - first - behind);
}

void count(const Lowered& lowered, std::span<const Step> steps, Counts& counts) {
  for (const Step& step : steps) ++counts[cost_key(lowered, step)];
}

// Appends the steps which the other way, whose steps are counted, has not.
void append_own(std::span<const Step> steps, Counts others, BlockWay& way, std::string& text) {
  for (const Step& step : steps) {
    const std::string key = cost_key(*way.lowered, step);
    if (const auto found = others.find(key); found != others.end() && found->second > 0) {
      --found->second;
      continue;
    }
    way.steps.push_back(&step);
    text += key + '\n';
  }
}

void append_difference(Pass pass, BlockAlternatives& block, std::string& fused_text,
                       std::string& unfused_text) {
  const Lowered& fused = *block.fused.lowered;
  const Lowered& unfused = *block.unfused.lowered;
  const std::vector<Step>& a = steps_of(fused, pass);
  const std::vector<Step>& b = steps_of(unfused, pass);
  const std::size_t least = std::min(a.size(), b.size());
  std::size_t first = 0, behind = 0;
  while (first < least && is_same(fused, a[first], unfused, b[first])) ++first;
  while (first + behind < least &&
         is_same(fused, a[a.size() - 1 - behind], unfused, b[b.size() - 1 - behind])) {
    ++behind;
  }
  const auto own = middle(a, first, behind), other = middle(b, first, behind);
  Counts of_fused, of_unfused;
  count(fused, own, of_fused);
  count(unfused, other, of_unfused);
  append_own(own, of_unfused, block.fused, fused_text);
  append_own(other, of_fused, block.unfused, unfused_text);
}

// FNV-1a of 64 bits: a network has some hundred blocks.
std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3U;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; hash >>= 4U) digits[i] = kDigits[hash & 15U];
  return digits;
}

BlockAlternatives alternatives_of(const Graph& graph, const FusionBlock& block,
                                  const Lowered& fused, const Lowered& unfused) {
  BlockAlternatives both{.name = graph.layers()[block.layer].name + ", " + word(block.kind),
                         .key = {},
                         .fused = {&fused},
                         .unfused = {&unfused}};
  std::string fused_text, unfused_text;
  // Inference has the fusions of one kind only (kRelu), and is not what is waited for.
  append_difference(Pass::kForward, both, fused_text, unfused_text);
  append_difference(Pass::kBackward, both, fused_text, unfused_text);
  both.key = hash_of(fused_text + "or\n" + unfused_text);
  return both;
}

class GreedySearch {
 public:
  GreedySearch(const Graph& graph, const LoweringOptions& options, const BlockJudge& judge)
      : graph_(graph), options_(options), judge_(judge) {
    options_.fuse = true;
    options_.unfused.clear();
  }

  Result<ChosenLowering> run(const std::function<void(std::size_t, std::size_t)>& progress) {
    PHUB_ASSIGN_OR_RETURN(chosen_.lowered, lower(graph_, options_));
    std::vector<FusionBlock> stuck;
    const std::vector<FusionBlock> blocks = FusionPlan(graph_, options_.compute_type).blocks();
    std::size_t done = 0;
    for (const FusionBlock& block : blocks) {
      progress(done++, blocks.size());
      PHUB_ASSIGN_OR_RETURN(const BlockVerdict verdict, look_at(block, false));
      if (verdict == BlockVerdict::kNeither) stuck.push_back(block);
    }
    for (const FusionBlock& block : stuck) {
      PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const BlockVerdict verdict, look_at(block, true));
    }
    chosen_.unfused = options_.unfused;
    return std::move(chosen_);
  }

 private:
  Result<BlockVerdict> look_at(const FusionBlock& block, bool is_last) {
    LoweringOptions without = options_;
    without.unfused.push_back(block);
    PHUB_ASSIGN_OR_RETURN(Lowered unfused, lower(graph_, without));
    const BlockAlternatives both = alternatives_of(graph_, block, chosen_.lowered, unfused);
    if (both.fused.steps.empty() && both.unfused.steps.empty()) return BlockVerdict::kFused;
    if (!is_last) ++chosen_.blocks;
    PHUB_ASSIGN_OR_RETURN(const BlockVerdict verdict, judge_(both));
    if (verdict == BlockVerdict::kUnfused || (verdict == BlockVerdict::kNeither && is_last)) {
      options_ = std::move(without);
      chosen_.lowered = std::move(unfused);
    }
    return verdict;
  }

  const Graph& graph_;
  LoweringOptions options_;
  const BlockJudge& judge_;
  ChosenLowering chosen_;
};

}  // namespace

std::string cost_key(const Lowered& lowered, const Step& step) {
  if (const auto* graph = std::get_if<GraphStep>(&step.work)) return graph->graph.key();
  const auto& kernel = std::get<KernelStep>(step.work);
  std::string text = "kernel " + std::to_string(static_cast<int>(kernel.kernel));
  for (const BufferId id : kernel.buffers) {
    const Buffer& buffer = lowered.buffer(id);
    text += ' ' + std::string(name_of(buffer.type));
    for (const std::int64_t size : buffer.dimensions) text += ',' + std::to_string(size);
  }
  for (const std::int64_t number :
       {kernel.count, kernel.channels, kernel.from, kernel.to, kernel.clear_to, kernel.stride}) {
    text += ' ' + std::to_string(number);
  }
  if (!(kernel.window == Window2d{})) text += text_of(kernel.window);
  return text;
}

Result<ChosenLowering> choose_fusion(
    const Graph& graph, const LoweringOptions& options, const BlockJudge& judge,
    const std::function<void(std::size_t, std::size_t)>& progress) {
  return GreedySearch(graph, options, judge).run(progress);
}

}  // namespace phub::nn::cuda

#include "worker/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "worker/nn/loss.h"
#include "worker/nn/models/models.h"
#include "worker/train/checkpoints/checkpoint.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/session_data.h"

namespace phub::train {
namespace {

// The parameters are there.
class NothingToWaitFor : public nn::Hooks {
 public:
  Status weights_needed(const nn::KeyRange&) override { return {}; }
  Status grad_ready(const nn::KeyRange&) override { return {}; }
};

}  // namespace

Result<Evaluation> evaluate(nn::Executor& network, const data::Images& set, const FeedOptions& feed,
                            nn::Hooks& hooks, const OnEvaluated& on_evaluated) {
  constexpr std::size_t kTop = 5;
  const auto start = std::chrono::steady_clock::now();
  std::vector<float> logits(network.output_elements());
  const std::size_t classes = logits.size() / network.batch();
  const data::EvaluationOrder order(set.images(), network.batch());
  BatchLoading batches(set, order, feed, network);
  double loss = 0.0;
  std::uint64_t top1 = 0;
  std::uint64_t top5 = 0;
  for (std::uint64_t index = 0; index < order.batches(); ++index) {
    PHUB_RETURN_IF_ERROR(batches.load(index));
    const std::uint64_t first = index * network.batch();
    const std::size_t images = std::min<std::uint64_t>(network.batch(), set.images() - first);
    const std::span<const nn::Label> labels = batches.labels().first(images);
    PHUB_RETURN_IF_ERROR(network.forward(nn::Mode::kInference, hooks));
    PHUB_RETURN_IF_ERROR(network.read_output(logits));
    const auto rows = std::span<const float>(logits).first(images * classes);
    const nn::Loss sums = nn::softmax_cross_entropy(rows, labels);
    loss += sums.sum;
    top1 += sums.correct;
    if (classes > kTop) top5 += nn::top_k_correct(rows, labels, kTop);
    if (on_evaluated) {
      on_evaluated(rows, static_cast<double>(first + images) / static_cast<double>(set.images()));
    }
  }
  const auto images = static_cast<double>(set.images());
  Evaluation result{
      .images = set.images(), .loss = loss / images, .top1 = static_cast<double>(top1) / images};
  if (classes > kTop) result.top5 = static_cast<double>(top5) / images;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Result<Evaluation> evaluate_checkpoint(const SessionOptions& options,
                                       const std::filesystem::path& checkpoint,
                                       const OnEvaluated& on_evaluated,
                                       const ChooseImages& choose) {
  PHUB_ASSIGN_OR_RETURN(const nn::Graph graph,
                        options.graph ? *options.graph : nn::make_model(options.model));
  SessionOptions once = options;  // nothing is read again
  once.data.cache.keeps_decoded = false;
  PHUB_ASSIGN_OR_RETURN(const data::ImageSets sets, load_data(once, graph));
  PHUB_RETURN_IF_ERROR(check_fit(options, graph, sets.test->facts()));
  std::unique_ptr<data::Images> chosen;
  if (choose) {
    PHUB_ASSIGN_OR_RETURN(chosen, choose(sets.test->facts()));
  }
  PHUB_ASSIGN_OR_RETURN(auto made, make_executor(graph, options.executor));
  // Sgd has no state: what is held is the parameters, and once more as they come from the file.
  const auto exchange = make_local_exchange(keys_of(*made), RuleKind::kSgd);
  // A device may be reading the exchange's arrays until it goes: before the exchange does.
  const std::unique_ptr<nn::Executor> network = std::move(made);
  PHUB_RETURN_IF_ERROR(load_model(checkpoint, *network, *exchange));
  PHUB_RETURN_IF_ERROR(exchange->initialise());
  PHUB_RETURN_IF_ERROR(bind(*network, *exchange));
  NothingToWaitFor hooks;
  return evaluate(*network, chosen ? *chosen : *sets.test, options.data.feed, hooks, on_evaluated);
}

}  // namespace phub::train

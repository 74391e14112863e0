#include "worker/cli/options/shares.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/config/payload.h"
#include "worker/cli/options/meeting.h"
#include "worker/client/phub.h"
#include "worker/train/measure/step_bench.h"
#include "worker/train/shares.h"

namespace phub {
namespace {

constexpr std::uint32_t kWarmUpSteps = 3;
constexpr std::uint32_t kTimedSteps = 9;

// Images a second.
Result<float> speed_of(const train::SessionOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto times, train::bench_steps(*options.graph,
                                                             {.executor = options.executor,
                                                              .rule = RuleKind::kSgd,
                                                              .warm_up = kWarmUpSteps,
                                                              .steps = kTimedSteps},
                                                             [](std::uint32_t) {}));
  std::vector<double> totals;
  for (const train::StepTimes& step : times) totals.push_back(step.total);
  std::ranges::nth_element(totals, totals.begin() + kTimedSteps / 2);
  return static_cast<float>(options.executor.batch / totals[kTimedSteps / 2]);
}

}  // namespace

Status agree_on_shares(WorkerConfig& config, train::SessionOptions& options,
                       const std::stop_token& stop) {
  if (!config.train().has_share()) return {};
  ClientOptions meeting = meeting_of(config, ".shares");
  meeting.stop = stop;
  PHUB_ASSIGN_OR_RETURN(const auto client, Client::connect(meeting));
  PHUB_RETURN_IF_ERROR(client->register_keys({{.name = "weights", .elements = config.workers()}}));
  const std::uint32_t index = client->worker_index();
  // All are here, and measure at the same time: they may share a machine.
  float weight = share_weight(config.train().share()).value_or(0.0F);
  if (weight == 0.0F) {
    PHUB_ASSIGN_OR_RETURN(weight, speed_of(options));
  }
  const std::span<float> weights = client->gradient<float>(0);
  std::ranges::fill(weights, 0.0F);
  weights[index] = weight;
  PHUB_RETURN_IF_ERROR(client->push_pull(0));
  const std::uint64_t global = std::uint64_t{config.train().batch()} * config.workers();
  const std::uint32_t unit = config.data().mixup() > 0.0F ? 2 : 1;  // pairs are mixed
  PHUB_ASSIGN_OR_RETURN(const auto parts,
                        train::divide_batch(client->parameter<float>(0), global, unit));
  config.set_worker_index(static_cast<std::int32_t>(index));
  options.executor.batch = parts[index];
  options.part = {.global = global,
                  .first = std::accumulate(parts.begin(), parts.begin() + index, std::uint64_t{0})};
  options.batches = parts;
  return {};
}

}  // namespace phub

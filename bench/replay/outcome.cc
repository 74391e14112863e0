#include "bench/replay/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/simulate/schedule.h"
#include "bench/simulate/simulate.h"
#include "common/plan/rack_trees.h"
#include "common/text/table.h"

namespace phub::bench::replay {
namespace {

constexpr double kBytesPerKib = 1024.0;

double error_of(double predicted, double measured) { return predicted / measured - 1.0; }

std::string heading_of(const Outcome& outcome) {
  const ReplayPlan& plan = outcome.plan;
  const std::string shrunk = plan.shrink > 1 ? fmt::format(", shrunk {:g} times", plan.shrink) : "";
  return fmt::format(
      "{}{}: {} layers, {} keys, {} elements ({} of {} a worker)\n"
      "{} workers, {} server(s), {}, policy {}\n"
      "Compute is a sleep; times {}.\n",
      plan.network, shrunk, plan.layers.size(), plan.keys().size(), human_count(plan.elements()),
      human_bytes(outcome.work.payload_bytes()), name_of(outcome.work.dtype), outcome.work.workers,
      outcome.work.servers, outcome.work.transport, name_of(plan.policy), plan.times);
}

}  // namespace

double payload_share(double mtu) {
  constexpr double kTcpHeaders = 52.0;
  constexpr double kEthernetHeader = 14.0;
  return (mtu - kTcpHeaders) / (mtu + kEthernetHeader);
}

simulate::Shape shape_of(const Work& work) {
  if (work.racks.empty()) return simulate::Shape::kSharded;
  if (work.rack_shape == name_of(RackShape::kChain)) return simulate::Shape::kRackChain;
  if (work.rack_shape == name_of(RackShape::kMulticolour)) return simulate::Shape::kRackMulticolour;
  return simulate::Shape::kHierarchical;
}

simulate::Prediction prediction_of(const ReplayPlan& plan, const Work& work,
                                   const simulate::Network& network) {
  simulate::SimulateOptions options;
  options.workers = {work.workers};
  options.shapes = {shape_of(work)};
  options.policies = {plan.policy};
  options.network = network;
  options.network.chunk_bytes = work.chunk_kib * kBytesPerKib;
  // Of one shape that is not measured there is always one.
  return simulate::predict_all(options, plan.trace(work.dtype)).value().front();
}

std::vector<double> means_of(const Blocks& blocks) {
  std::vector<double> means;
  for (const auto& block : blocks) {
    means.push_back(std::accumulate(block.begin(), block.end(), 0.0) /
                    static_cast<double>(block.size()));
  }
  return means;
}

std::string text_of(const Outcome& outcome) {
  const Spread measured = spread_of(means_of(outcome.blocks));
  Table table("an iteration|>median|>blocks' least|>most");
  table.add({"measured", human_time(measured.median), human_time(measured.min),
             human_time(measured.max)});
  table.add({"of it compute", human_time(outcome.plan.compute()), "", ""});
  std::string words;
  if (outcome.rates.network) {
    const auto predicted = prediction_of(outcome.plan, outcome.work, *outcome.rates.network);
    table.add({fmt::format("predicted (simulate, {})", name_of(shape_of(outcome.work))),
               human_time(predicted.iteration.seconds), "", ""});
    words = fmt::format("The prediction is off by {:+.1f} %; it is bound by: {}.\n",
                        100.0 * error_of(predicted.iteration.seconds, measured.median),
                        predicted.bound);
  } else {
    words = fmt::format("No prediction: {}.\n", outcome.rates.why_none);
  }
  return heading_of(outcome) + "\n" + table.to_string() + words;
}

std::string json_of(const Outcome& outcome) {
  const ReplayPlan& plan = outcome.plan;
  const Work& work = outcome.work;
  const std::vector<double> means = means_of(outcome.blocks);
  const double p50 = median(means);
  nlohmann::ordered_json object = {{"bench", "replay"},
                                   {"system", "phub"},
                                   {"network", plan.network},
                                   {"times", plan.times},
                                   {"shrink", plan.shrink},
                                   {"policy", name_of(plan.policy)},
                                   {"shape", name_of(shape_of(work))},
                                   {"transport", work.transport},
                                   {"workers", work.workers},
                                   {"servers", work.servers},
                                   {"server_cores", work.server_cores},
                                   {"layers", plan.layers.size()},
                                   {"keys", plan.keys().size()},
                                   {"elements", work.elements},
                                   {"dtype", name_of(work.dtype)},
                                   {"rule", name_of(work.rule)},
                                   {"chunk_kib", work.chunk_kib},
                                   {"compute_seconds", plan.compute()},
                                   {"iterations", all_values(outcome.blocks).size()},
                                   {"seconds_p50", p50},
                                   {"seconds_of_blocks", means},
                                   {"verified", outcome.failure.empty()},
                                   {"checksum", outcome.checksum}};
  if (outcome.rates.network) {
    const auto predicted = prediction_of(plan, work, *outcome.rates.network);
    object["predicted_seconds"] = predicted.iteration.seconds;
    object["racks"] = predicted.network.racks();
    object["bound"] = predicted.bound;
    object["error"] = error_of(predicted.iteration.seconds, p50);
  } else {
    object["no_prediction"] = outcome.rates.why_none;
  }
  return object.dump();
}

}  // namespace phub::bench::replay

#include "bench/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <utility>

#include "bench/simulate/gantt.h"
#include "bench/simulate/report.h"
#include "bench/simulate/rounds.h"
#include "common/base/whole_file.h"
#include "common/plan/rack_trees.h"
#include "common/text/table.h"

namespace phub::bench::simulate {
namespace {

// Less than this share of an iteration is not what limits it.
constexpr double kNoticeable = 0.01;

// What most of the exposed exchange would go with.
std::string bound_of(const LayerTrace& trace, const Exchange& exchange, const Prediction& p) {
  if (p.iteration.waits_for_input) return "input";
  if (p.iteration.exposed < kNoticeable * p.iteration.seconds) return "compute";
  if (p.shape == Shape::kMeasured) return exchange.bound;
  const double rates = predict(trace, exchange.of_rates_only(), p.policy, {}).exposed;
  return 2 * rates < p.iteration.exposed ? "latency" : exchange.bound;
}

bool is_there(Shape shape, Policy policy) {
  return shape != Shape::kMeasured || (policy != Policy::kPacked && policy != Policy::kMerged);
}

Status write_file(const char* option, const std::string& path, const std::string& text) {
  if (path.empty()) return {};
  auto reader = reader_of(path);
  if (!reader) return reader.error().with_context(option);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : errno_status(std::string(option) + ": cannot write " + path);
}

std::string heading_of(const LayerTrace& trace) {
  const auto exchanged = std::count_if(trace.layers.begin(), trace.layers.end(),
                                       [](const TraceLayer& layer) { return layer.bytes > 0; });
  return fmt::format(
      "{}: {} layers, {} with gradients ({}); forward {}{}, backward {}, of {} iteration{}\n"
      "All times are predicted.\n",
      trace.name, trace.layers.size(), exchanged,
      human_bytes(static_cast<std::uint64_t>(trace.bytes())), human_time(trace.forward()),
      trace.has_forward ? "" : " (the trace has none; see --forward-ratio)",
      human_time(trace.backward()), trace.iterations, trace.iterations == 1 ? "" : "s");
}

Status draw(const SimulateOptions& options, const LayerTrace& trace,
            const std::vector<Prediction>& predictions) {
  if (options.gantt.empty()) return {};
  if (predictions.size() != 1) {
    return {Code::kInvalidArgument,
            fmt::format("--gantt: draws one prediction, and there are {}; give one number of "
                        "--workers, one --shape and one --policy",
                        predictions.size())};
  }
  const Prediction& p = predictions.front();
  return write_file(
      "--gantt", options.gantt,
      gantt_svg(p.iteration,
                fmt::format("{}: {} workers, {}, {}: {} predicted", trace.name, p.network.workers,
                            name_of(p.shape), name_of(p.policy), human_time(p.iteration.seconds))));
}

}  // namespace

Result<LayerTrace> trace_of(const SimulateOptions& options) {
  PHUB_ASSIGN_OR_RETURN(LayerTrace trace, read_trace(options.trace));
  if (options.input) trace.input = *options.input;
  const double bytes = trace.bytes();
  for (TraceLayer& layer : trace.layers) {
    if (!trace.has_forward) layer.forward = options.forward_ratio * layer.backward;
    if (options.update) layer.update = *options.update * layer.bytes / bytes;
  }
  if (trace.has_forward && options.forward_ratio > 0) {
    return Status(Code::kInvalidArgument,
                  "--forward-ratio: the trace has forward times; leave it out");
  }
  return trace;
}

Result<Network> network_of(const SimulateOptions& options, std::uint32_t workers) {
  Network network = options.network;
  network.workers = workers;
  std::vector<std::uint32_t> sizes = options.rack_workers;
  std::vector<double> rates = options.uplink_rates;
  if (sizes.size() == 1) network.rack_workers = sizes.front();
  if (rates.size() == 1) network.uplink_rate = rates.front();
  if (sizes.size() < 2 && rates.size() < 2) return network;
  if (sizes.size() < 2) {  // full racks, and the rest in the last
    sizes.assign(network.racks(), network.in_rack());
    sizes.back() = workers - network.in_rack() * (network.racks() - 1);
  }
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  if (std::count(sizes.begin(), sizes.end(), 0U) > 0) {
    return Status(Code::kInvalidArgument,
                  "--rack-workers: one of several racks has no workers; leave it out");
  }
  if (sum != workers) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--rack-workers: {} racks have {} workers, and --workers is {}; name "
                              "as many, or give one number for all racks",
                              sizes.size(), sum, workers));
  }
  if (rates.size() < 2) rates.assign(sizes.size(), network.uplink_rate);
  if (rates.size() != sizes.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--uplink-gbit: {} rates, and {} workers are in {} rack(s); give one "
                              "for each rack, or one for all",
                              rates.size(), workers, sizes.size()));
  }
  network.racks_workers = std::move(sizes);
  network.racks_uplinks = std::move(rates);
  return network;
}

Result<std::vector<Prediction>> predict_all(const SimulateOptions& options,
                                            const LayerTrace& trace) {
  const InputModel input{
      .input = trace.input, .transfer = options.transfer, .is_prefetched = options.prefetch};
  std::vector<Prediction> predictions;
  for (const std::uint32_t workers : options.workers) {
    PHUB_ASSIGN_OR_RETURN(const Network network, network_of(options, workers));
    for (const Shape shape : options.shapes) {
      if (shape == Shape::kMeasured && !trace.has_comm) {
        return Status(Code::kInvalidArgument,
                      "--shape measured: the trace has no times of the exchange; name another");
      }
      if (has_rack_trees(shape) && network.racks() > kMaxRacks) {
        return Status(
            Code::kInvalidArgument,
            fmt::format("--shape {}: {} racks, and a job has at most {}; put more workers "
                        "into each with --rack-workers, or name another",
                        name_of(shape), network.racks(), kMaxRacks));
      }
      const Exchange exchange = exchange_of(shape, network);
      for (const Policy policy : options.policies) {
        if (!is_there(shape, policy)) continue;
        Prediction prediction{network, shape, policy, predict(trace, exchange, policy, input), {}};
        prediction.bound = bound_of(trace, exchange, prediction);
        predictions.push_back(std::move(prediction));
      }
    }
  }
  if (predictions.empty()) {
    return Status(Code::kInvalidArgument,
                  "--policy: with --shape measured only bsp, wfbp and priority can be told, as the "
                  "trace has no times of merged messages");
  }
  return predictions;
}

Status run_simulate(const SimulateOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const LayerTrace trace, trace_of(options));
  std::optional<MeasuredRounds> measured;
  if (!options.measured.empty()) {
    PHUB_ASSIGN_OR_RETURN(measured, read_rounds(options.measured));
  }
  PHUB_ASSIGN_OR_RETURN(const auto predictions, predict_all(options, trace));
  std::vector<ReportRow> rows;
  for (const Prediction& p : predictions) {
    const double images = static_cast<double>(trace.batch) * p.network.workers;
    ReportRow row{p, images / p.iteration.seconds, {}};
    if (measured) row.error = p.iteration.seconds / measured->seconds - 1.0;
    rows.push_back(row);
  }
  PHUB_RETURN_IF_ERROR(draw(options, trace, predictions));
  PHUB_RETURN_IF_ERROR(write_file("--csv", options.csv, csv_of(rows)));
  if (options.json) {
    for (const ReportRow& row : rows) fmt::print("{}\n", json_line(row));
    return {};
  }
  fmt::print("{}", heading_of(trace));
  if (measured) {
    fmt::print("Measured: {} (median of {} rounds); error is of the prediction.\n",
               human_time(measured->seconds), measured->rounds);
  }
  fmt::print("{}", table_of(rows));
  return {};
}

}  // namespace phub::bench::simulate

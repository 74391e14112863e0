// `phub-bench simulate`: how long an iteration would take, for shapes of the exchange and policies
// of its order. Main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/simulate/report.h"
#include "bench/simulate/schedule.h"
#include "bench/simulate/shapes.h"
#include "common/base/status.h"

namespace phub::bench::simulate {

struct SimulateOptions {
  std::string trace;
  std::vector<std::uint32_t> workers = {8};
  std::vector<Shape> shapes;
  std::vector<Policy> policies;
  Network network{};  // its workers are each of `workers`
  // Of racks, one after the other; one entry is of all, none is as the network says.
  std::vector<std::uint32_t> rack_workers{};
  std::vector<double> uplink_rates{};
  std::optional<double> input;   // seconds, instead of the trace's
  std::optional<double> update;  // seconds of all layers, shared out by their bytes
  double transfer = 0.0;         // seconds
  double forward_ratio = 0.0;    // of backward, where the trace has no forward
  bool prefetch = true;
  std::string measured;  // a file of phubctl trace
  std::string csv;
  std::string gantt;
  bool json = false;
};

// The trace with what the options say of it.
Result<LayerTrace> trace_of(const SimulateOptions& options);

// The network of so many workers, with the lists put into it. Error: kInvalidArgument, for lists
// that do not fit each other or the workers.
Result<Network> network_of(const SimulateOptions& options, std::uint32_t workers);

// Every combination, workers first; policies that kMeasured does not have are left out. Error:
// kInvalidArgument where nothing is left, or the trace has no comm for kMeasured.
Result<std::vector<Prediction>> predict_all(const SimulateOptions& options,
                                            const LayerTrace& trace);

Status run_simulate(const SimulateOptions& options);

}  // namespace phub::bench::simulate

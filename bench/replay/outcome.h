// What a replay has measured, beside what simulate predicts for it. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/base/statistics.h"
#include "bench/processes/work.h"
#include "bench/replay/plan.h"
#include "bench/simulate/report.h"
#include "bench/simulate/shapes.h"

namespace phub::bench::replay {

// What a prediction needs: the rates of the network that is replayed on.
struct Rates {
  std::optional<simulate::Network> network{};  // nothing: there is no prediction
  std::string why_none{};                      // in words, with the cure
};

struct Outcome {
  ReplayPlan plan;
  Work work;
  Rates rates;
  Blocks blocks;         // seconds of iterations
  std::string checksum;  // of the sums
  std::string failure;   // why sums were wrong; empty: all were right
};

// The part of a link's rate that is payload of tcp over IPv4, where the rate counts frames: of a
// frame of `mtu` bytes, 52 are headers with timestamps, and Ethernet adds 14.
double payload_share(double mtu);

// Of simulate, that a job has: sharded over all servers, or its racks joined.
simulate::Shape shape_of(const Work& work);

// simulate's prediction for it.
// REQUIRES: outcome.rates.network.
simulate::Prediction prediction_of(const ReplayPlan& plan, const Work& work,
                                   const simulate::Network& network);

// Each block's mean: what a fast worker pushes early shortens the next iteration and not the block.
std::vector<double> means_of(const Blocks& blocks);

// REQUIRES: a block.
std::string text_of(const Outcome& outcome);
std::string json_of(const Outcome& outcome);  // one line

}  // namespace phub::bench::replay

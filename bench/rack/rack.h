// "phub-bench rack": scenarios of racks, run on this machine. Main thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rack/fault_run.h"
#include "bench/rack/testbed/load.h"
#include "bench/rack/testbed/losses.h"
#include "bench/rack/training.h"
#include "common/base/status.h"
#include "proto/rack.pb.h"

namespace phub::bench {

struct RackOptions {
  std::string scenario;  // path of a textproto
  bool json = false;
};

// What another system took, block by block in turn with phub.
struct PeerResult {
  std::string name;
  std::vector<std::vector<double>> blocks = {};
  RackLoad load;  // of its rounds
};

// What a run has measured.
struct RackResult {
  RackScenario scenario;
  Fabric fabric;
  std::vector<std::vector<double>> blocks;  // seconds of each timed round
  std::vector<TrainedEpoch> epochs;         // of a training, in place of blocks
  std::vector<FaultedWorker> faulted;       // of a scenario with faults, in place of all else
  RackLoad load;                   // of all rounds, those that warm up too, or of all steps
  std::vector<LinkLosses> losses;  // in the same time, while peers worked too
  std::vector<PeerResult> peers;
  std::string checksum;
  std::string failure;  // why sums were wrong; empty: all were right

  std::uint64_t rounds() const;  // or steps, that `load` has seen
};

// Above this share of a CPU its time is no longer the links'.
inline constexpr double kCpuBusyMost = 0.7;

// Removes what killed runs left, builds the racks, runs the scenario, reports, removes the racks.
// Errors: kInvalidArgument: the scenario; kFailedPrecondition: what is missing here; kDataLoss: a
// wrong sum; kAborted: interrupted; with faults: the worker that did not end as it should.
Status run_rack(const RackOptions& options);

// Removes what killed runs left, and says what.
Status clean_racks(bool json);

// Says whether racks can be built here: builds a small one and removes it. The error is what is
// missing.
Status check_rack(bool json);

// Seconds of a round, block by block: means, since what a fast worker pushes early shortens the
// next round and not the block.
std::vector<double> round_means(const std::vector<std::vector<double>>& blocks);

// For people, and for the JSON line: phub and its peers.
std::string peers_table(const RackResult& result);
nlohmann::ordered_json peers_json(const RackResult& result);

std::string report_text(const RackResult& result);
std::string report_json(const RackResult& result);  // one line

}  // namespace phub::bench

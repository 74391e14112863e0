// Runs a scenario with faults: makes them happen, and judges how each worker ends.
//
// Belongs to the bench's main thread.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/processes/work.h"
#include "bench/rack/cluster.h"
#include "bench/rack/testbed/testbed.h"
#include "bench/rack/workers.h"
#include "proto/rack.pb.h"

namespace phub::bench {

struct FaultedWorker {
  std::string host;
  EndKind kind = EndKind::kHung;
  double seconds = 0;  // after the first fault; of SLOW_START: after the others' start
  std::string error = {};
  std::string wrong = {};  // why it is not the end that it should be; empty: it is
};

// What there is when workers start.
struct FaultPlaces {
  const Testbed& testbed;
  RackCluster& cluster;
  Places& places;
};

// One of each worker, in the order of the hosts. Errors: of the processes before the faults.
Result<std::vector<FaultedWorker>> run_faults(const RackScenario& scenario, const Fabric& fabric,
                                              const FaultPlaces& there);

// How a worker should end, and what is wrong with how it did. `end`: null: it hangs.
FaultedWorker judge(const RackScenario& scenario, const Fabric& fabric, const RackHost& host,
                    const WorkerEnd* end, std::chrono::steady_clock::time_point fault);

std::string fault_report_text(const RackScenario& scenario,
                              const std::vector<FaultedWorker>& workers);
nlohmann::ordered_json fault_report_json(const RackScenario& scenario,
                                         const std::vector<FaultedWorker>& workers);

// The first worker that did not end as it should; OK: all did.
Status verdict(const std::vector<FaultedWorker>& workers);

}  // namespace phub::bench

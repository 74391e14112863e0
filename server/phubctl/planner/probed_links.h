// The network between a job's racks, from a probe.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/cost/rack_exchange.h"
#include "common/job/spec.h"
#include "proto/probe.pb.h"

namespace phub::phubctl {

// Bytes a second, where it is known better than the probe can; 0: by the probe.
struct NicRates {
  double worker = 0.0;
  double server = 0.0;
};

struct ProbedNetwork {
  cost::RackNetwork network;             // its chunks are the caller's to set
  std::vector<std::string> assumptions;  // sentences
};

// What the k-th servers of two racks say to each other is the link between the racks: the fastest
// of them, with the longest latency. Errors: kFailedPrecondition when the probe does not know a
// rack or a link of the job, or the racks have not as many servers each.
Result<ProbedNetwork> network_of(const control::Probe& probe, const std::vector<RackSpec>& racks,
                                 const NicRates& rates);

}  // namespace phub::phubctl

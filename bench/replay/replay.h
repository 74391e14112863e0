// `phub-bench replay`: workers that compute nothing and exchange everything, as a trace says. Main
// thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/compare/interleave.h"
#include "bench/processes/work.h"
#include "bench/replay/outcome.h"
#include "bench/replay/plan.h"
#include "common/base/status.h"

namespace phub::bench::replay {

struct ReplayOptions {
  PlanSource source;
  Work work;                           // elements and keys are the plan's
  std::vector<std::string> addresses;  // control planes of servers that run; none: own ones
  std::string job = "replay";
  BlockPlan plan;
  std::chrono::seconds timeout{300};  // of a block
  Rates rates;
  bool json = false;
};

// Whether a block can end in time: its iterations compute for a known time. `name` is what the
// timeout is called. Error: kInvalidArgument.
Status check_length(const ReplayPlan& plan, const BlockPlan& blocks, std::chrono::seconds timeout,
                    const std::string& name);

// The subcommand. Error: kDataLoss: a wrong sum.
Status run_replay(const ReplayOptions& options);

}  // namespace phub::bench::replay

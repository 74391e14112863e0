// A checkpoint whose network is only looked at: what eval and predict have in common.
//
// A pure function.
#pragma once

#include <string>

#include "common/base/status.h"
#include "worker/cli/options/run_arguments.h"
#include "worker/train/session.h"

namespace phub {

struct CheckpointUse {
  std::string path;
  train::SessionOptions options;
};

// `path`: of the checkpoint; empty: the configuration's. Errors: kInvalidArgument, the model, or
// there is no path.
Result<CheckpointUse> use_of_checkpoint(const WorkerConfig& config, const RunArguments& run,
                                        const std::string& path);

}  // namespace phub

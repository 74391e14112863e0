// The job that a worker's configuration describes.
//
// Pure functions; any thread.
#pragma once

#include "common/config/check.h"
#include "common/job/spec.h"
#include "proto/config.pb.h"

namespace phub {

// What its servers are told, without keys: with payload "delta" and "weights" the rule is
// train.outer's. REQUIRES: each word is one of its field's.
JobSpec job_of(const WorkerConfig& config);

// By the table that servers ask too (common/job/contradictions.h). `check`: of the configuration.
void check_contradictions(const WorkerConfig& config, ConfigCheck& check);

}  // namespace phub

// What makes sense in TrainConfig's compress, and beside it.
//
// Pure functions; any thread.
#pragma once

#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

// `train` is the check of config.train().
void check_compress(const WorkerConfig& config, ConfigCheck train);

}  // namespace phub

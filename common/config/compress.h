// What makes sense in TrainConfig's compress, in rack_compress, and beside them.
//
// Pure functions; any thread.
#pragma once

#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

// `train` is the check of config.train().
void check_compress(const WorkerConfig& config, ConfigCheck train);
// `check` is that of the configuration.
void check_rack_compress(const WorkerConfig& config, ConfigCheck& check);

}  // namespace phub

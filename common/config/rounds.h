// Rounds with a quorum, as a worker's configuration has them.
#pragma once

#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

// Of a configuration that has `rounds`, which are what `check` is in. Errors name the field and the
// cure.
void check_rounds(const WorkerConfig& config, ConfigCheck check);

}  // namespace phub

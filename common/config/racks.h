// What makes sense in ServerConfig's rack, advertise_address and directory.
//
// Pure functions; any thread.
#pragma once

#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

void check_racks(const ServerConfig& config, ConfigCheck& check);

// The same of WorkerConfig's racks and rack_shape.
void check_job_racks(const WorkerConfig& config, ConfigCheck& check);

}  // namespace phub

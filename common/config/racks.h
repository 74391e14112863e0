// What makes sense in ServerConfig's rack, advertise_address and directory.
//
// Pure functions; any thread.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

void check_racks(const ServerConfig& config, ConfigCheck& check);

// The same of WorkerConfig's racks and rack_shape.
void check_job_racks(const WorkerConfig& config, ConfigCheck& check);

// "NAME:WORKERS", as in "a:4". Errors: kInvalidArgument.
Result<JobRackConfig> parse_job_rack(std::string_view text);

}  // namespace phub

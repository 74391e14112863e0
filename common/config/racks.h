// What makes sense in ServerConfig's rack, advertise_address and directory.
//
// Pure functions; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/check.h"
#include "common/protocol/job_spec.h"
#include "proto/config.pb.h"

namespace phub {

void check_racks(const ServerConfig& config, ConfigCheck& check);

// The same of WorkerConfig's racks and rack_shape.
void check_job_racks(const WorkerConfig& config, ConfigCheck& check);

// Of a command line, "a:4,b:4": at least two racks, each once, with a worker or more. Error:
// kInvalidArgument.
Result<std::vector<RackSpec>> parse_racks(std::string_view text);

}  // namespace phub

// What a job's rule and its numbers may be.
//
// A pure function; any thread.
#pragma once

#include "common/base/status.h"
#include "common/protocol/job_spec.h"

namespace phub::server {

// Errors: those of validate (check.h).
Status validate_rule(const JobSpec& spec);

}  // namespace phub::server

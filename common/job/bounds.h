// What each number of a job may be.
//
// Pure functions; any thread.
#pragma once

#include "common/base/status.h"
#include "common/job/spec.h"

namespace phub {

// Error: kInvalidArgument names the field, the value and what is allowed.
Status check_bounds(const JobSpec& spec);

}  // namespace phub

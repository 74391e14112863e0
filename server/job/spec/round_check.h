// What a job's rounds may be, how its pushes are encoded and carried, and who looks at their
// values.
//
// Pure functions; any thread.
#pragma once

#include "common/base/status.h"
#include "common/protocol/job_spec.h"

namespace phub::server {

// Errors: those of validate (check.h).
Status validate_encoding(const JobSpec& spec);
Status validate_rounds(const JobSpec& spec);
Status validate_checksums(const JobSpec& spec);
Status validate_streams(const JobSpec& spec);
Status validate_watch(const JobSpec& spec);

}  // namespace phub::server

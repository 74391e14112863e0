// A job's spec as a file can hold it: job.proto's JobSpec, as JSON or as bytes.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/job/spec.h"

namespace phub {

std::string text_of(const JobSpec& spec);
// Drops a learning rate and momentum that the rule does not read: earlier versions took them.
// Errors: kDataLoss for what is no JobSpec, and what validate says.
Result<JobSpec> spec_from_text(const std::string& text);

std::string bytes_of(const JobSpec& spec);
// Drops and errors as above; it may be without keys.
Result<JobSpec> spec_from_bytes(const std::string& bytes);

}  // namespace phub

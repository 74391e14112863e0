// A job's spec as text that a file can hold: job.proto's JobSpec in JSON.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "common/base/status.h"
#include "server/job/spec.h"

namespace phub::server {

std::string text_of(const JobSpec& spec);
// Errors: kDataLoss for what is no JobSpec, and what validate says.
Result<JobSpec> spec_from_text(const std::string& text);

}  // namespace phub::server

// The spec of a job that goes on with another number of workers than it had.
//
// A pure function; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"

namespace phub {

struct WithWorkers {
  JobSpec spec;
  std::vector<std::string> notes = {};  // for people: what is not as it was
};

// 0 or as many as it had: the spec as it is. A gradient_scale of 1 / workers stays a mean, and the
// default elasticity the default. Errors: kInvalidArgument for a job of several racks, whose
// workers are those of its racks.
Result<WithWorkers> with_workers(JobSpec spec, std::uint32_t workers);

}  // namespace phub

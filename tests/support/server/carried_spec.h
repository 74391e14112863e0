// A job's spec as it comes out at the other end of the control plane.
#pragma once

#include "common/job/message.h"

namespace phub::testing {

inline Result<JobSpec> carried(const JobSpec& spec) {
  control::JobSpec message;
  fill(spec, message);
  add_keys(spec.keys, message);
  return spec_from(message);
}

}  // namespace phub::testing

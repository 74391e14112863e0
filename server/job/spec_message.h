// A job's spec <-> control.proto's JobSpec.
//
// Pure functions; any thread. What comes from a peer is checked: bad enumerators and sizes are
// errors here, the rest is checked by validate(JobSpec).
#pragma once

#include <vector>

#include "common/base/status.h"
#include "proto/control.pb.h"
#include "server/job/spec.h"

namespace phub::server {

Result<JobSpec> spec_from(const control::JobSpec& message);
Result<JobSpec> spec_without_keys(const control::JobSpec& message);
void append(const google::protobuf::RepeatedPtrField<control::Key>& messages,
            std::vector<JobKey>& keys);

enum class Keys : bool { kLeftOut, kIncluded };
void fill(const JobSpec& spec, Keys keys, control::JobSpec& message);

}  // namespace phub::server

// A job's spec <-> job.proto's JobSpec: both ends of the control plane.
//
// Pure functions; any thread. Of what comes from a peer only the enumerators are checked here.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"
#include "proto/job.pb.h"

namespace phub {

// Why rack_rounds without a quorum is refused, where the job's own text has it: a JobSpec cannot
// say that it was written.
inline constexpr std::string_view kRackRoundsWithoutQuorum =
    "is missing, or 0: without it racks wait for each other; give a number of racks, such as 1, "
    "with "
    "which no rack waits for long, or leave rack_rounds out";

// Errors: kInvalidArgument for an enumerator that is not known here, and for a part that means
// nothing as it is.
Result<JobSpec> spec_from(const control::JobSpec& message);
Result<JobSpec> spec_without_keys(const control::JobSpec& message);
void append(const google::protobuf::RepeatedPtrField<control::Key>& messages,
            std::vector<KeySpec>& keys);

// All but the keys, with the gradient scale and the trust coefficient that hold.
void fill(const JobSpec& spec, control::JobSpec& message);

// Adds keys from index `first` on until they have `bytes_max`, roughly; returns the next index.
std::size_t add_keys(const std::vector<KeySpec>& keys, control::JobSpec& message,
                     std::size_t first = 0,
                     std::size_t bytes_max = std::numeric_limits<std::size_t>::max());

}  // namespace phub

// What holds a job with a quorum up. Its chunks have no rounds together, so there is no timing:
// what is told is who is late, withheld or gone.
//
// Pure function; any thread.
#pragma once

#include <vector>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

// At least one reason. REQUIRES: the job runs, and has a quorum.
std::vector<Reason> explain_quorum(const control::JobInfo& job);

}  // namespace phub::phubctl

// A small job in which the workers of a job meet before it, to tell each other numbers.
//
// A pure function.
#pragma once

#include <string_view>

#include "proto/config.pb.h"
#include "worker/client/phub.h"

namespace phub {

// Of the job's workers, by its servers and links: sums in fp32, of every worker's push in each
// round, under the job's name with the suffix.
ClientOptions meeting_of(const WorkerConfig& config, std::string_view suffix);

}  // namespace phub

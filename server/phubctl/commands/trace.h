// The last rounds of a job as a Chrome trace (JSON object format), for Perfetto or
// chrome://tracing.
//
// One process for each core and one for each worker; a core's spans are push, wait, aggregate and
// reply, a worker's are those of its own pushes on each core. Rounds may overlap by a few chunks:
// even and odd ones have threads of their own, as spans of one thread must nest. Times are
// microseconds since the first push of the first round. Pure; any thread.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace phub::phubctl {

std::string chrome_trace(const std::string& job, const control::TraceReply& trace);

}  // namespace phub::phubctl

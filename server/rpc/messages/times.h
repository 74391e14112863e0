// What cores and jobs spend their time on, as messages of control.proto.
//
// Pure functions; any thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "proto/control.pb.h"
#include "server/jobs/table.h"
#include "server/plane/data_plane.h"

namespace phub::server {

// A job that has not had two rounds yet has only its histograms.
void fill(const JobCounters& counters, const std::optional<JobTiming>& timing,
          control::JobTiming& message);

// The jobs of one core, with the names of `views`; a job without a view is left out.
void fill(const std::vector<CoreJobCounters>& jobs, const std::map<std::uint64_t, JobView>& views,
          control::CoreInfo& message);

void fill(const std::vector<CoreRounds>& rounds, control::TraceReply& message);

}  // namespace phub::server

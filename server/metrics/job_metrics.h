// The metrics of a job: its rounds, its members, other racks.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>

#include "server/jobs/views.h"
#include "server/metrics/families.h"
#include "server/plane/data_plane.h"

namespace phub::server {

// Not "job": Prometheus gives that label to its own jobs.
Labels labels_of(const JobView& job);

// That have joined.
std::size_t workers_of(const JobView& job);

void add_job(const JobView& job, const DataPlane& data_plane, Families& families);

}  // namespace phub::server

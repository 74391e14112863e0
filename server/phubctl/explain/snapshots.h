// What became of a job's snapshots: training goes on without those that fail.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

// How many were refused or failed, and why the last one. Nothing: none.
std::optional<Reason> snapshots_failed(const control::JobInfo& job);

}  // namespace phub::phubctl

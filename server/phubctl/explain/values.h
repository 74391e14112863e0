// What workers pushed that is not finite, of a job with watch_values, or had not its checksum, of
// one with checksums.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

// Whose first such push is of the earliest round, and how many others followed; of a job that
// votes, who overflows, where that costs rounds. Nothing: there is nothing to tell.
std::optional<Reason> not_finite(const control::JobInfo& job);

// Whose pushes came with another checksum than theirs, first. Nothing: nobody's.
std::optional<Reason> corrupt(const control::JobInfo& job);

// Tables of the workers that have pushed some, or voted so; empty: nobody has.
std::string values_text(const control::JobInfo& job);
std::string corruption_text(const control::JobInfo& job);

}  // namespace phub::phubctl

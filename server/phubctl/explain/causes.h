// The single causes that explain() looks for.
//
// Pure functions; any thread. REQUIRES everywhere: the job has a timing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

// Fewer rounds than these do not tell the slowest worker: the first steps are like no others.
constexpr std::uint64_t kRoundsToBlame = 10;

// Between the looks, which lie several rounds apart, no chunk was completed.
std::optional<Reason> standstill(const control::JobInfo& job, const Looks& server);

// All others that hold.
std::vector<Reason> causes_of(const control::JobInfo& job, const Looks& server);

}  // namespace phub::phubctl

// Why servers end jobs, in words that workers tell apart: they are part of what a member hears.
#pragma once

#include <string_view>

namespace phub::client {

// The beginning of the reason of a planned end that a server asks for because it stops.
inline constexpr std::string_view kServerStops = "the server is being stopped or drained";
// Somebody has ended the job for good: it is not to be restored by its workers.
inline constexpr std::string_view kClosedByAdministrator = "it was closed by an administrator";
inline constexpr std::string_view kTenantDeleted = "its tenant was deleted";
// Why a job is not restored: another one of its name lives.
inline constexpr std::string_view kHasWorkers = ", and workers have joined it";
// Why a job is not joined yet by a worker that comes after a loss.
inline constexpr std::string_view kStillRuns = "runs, and is to be joined when it has ended";

}  // namespace phub::client

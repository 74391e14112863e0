// A job that spans racks, as one of its servers sees it.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

// "2/4": workers of the server's rack that have joined, and those that it waits for. Of a job of
// one rack these are all.
std::string workers_text(const control::JobInfo& job);
std::uint32_t workers_here(const control::JobInfo& job);

// What goes over the link to a rack in a round, both kinds together: sums and replies. Means.
struct LinkRound {
  double bytes_sent = 0.0;
  double bytes_received = 0.0;
};
// Nothing before the first round.
std::optional<LinkRound> round_of(const control::RackLink& link, const control::JobInfo& job);

// The rack that the rounds wait for most often; null: they wait for none.
const control::RackTiming* last_rack(const control::JobTiming& timing);

// Rounds wait for another rack. Alone this server knows when that rack's sums and replies come: for
// long nothing, or one after the other, which both late workers and a slow link do. With a look at
// that rack's server it is told which: over a slow link both ends wait for each other.
std::optional<Reason> other_racks(const control::JobInfo& job, const Looks& looks);

// The job goes on without another rack.
std::optional<Reason> lost_rack(const control::JobInfo& job);

}  // namespace phub::phubctl

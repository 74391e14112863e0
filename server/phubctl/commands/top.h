// The server and its jobs at a glance, with rates between two looks.
//
// Pure functions; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "proto/control.pb.h"

namespace phub::phubctl {

// What the server said at one time.
struct Look {
  std::chrono::steady_clock::time_point at;
  control::ServerInfo server;
  control::ListJobsReply jobs;
};

// Tables of cores, jobs and refused input. REQUIRES: `before` is of the same server, not later.
std::string top_text(const Look& before, const Look& now);

// {"server": ..., "jobs": [...], "rates": [{"job_id", "rounds_per_second",
// "bytes_received_per_second", "bytes_sent_per_second"}, ...]} on one line.
std::string top_json(const Look& before, const Look& now);

// `text` for a screen of that size, drawn over what is there: lines are cut at its right edge, and
// the rest of the screen is cleared.
std::string screen_of(const std::string& text, std::size_t columns, std::size_t lines);

}  // namespace phub::phubctl

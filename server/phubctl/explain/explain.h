// Why a job's step takes as long as it does: reasons in sentences with figures, each with a cure.
//
// Pure functions of what a server says about a job and about itself; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace phub::phubctl {

// The topic of the only reason where no other one holds.
inline constexpr const char* kNothing = "nothing stands out";

struct Reason {
  std::string topic;  // "input", "straggler", "uneven work", "core saturation", "fair share",
                      // "late rack", "uplink", "other racks", "transport", "network port", "waiting
                      // policy", "skipped steps", ...
  std::string what;   // one or two sentences with figures
  std::string cure;   // what to do about it
  double seconds = 0.0;  // of a round that are at stake, at most; they may overlap
};

// What the server said of itself twice: between the two lies the time that shares are of.
struct Looks {
  control::ServerInfo before;
  control::ServerInfo now;
  control::JobInfo job_before = {};                   // the job at the first look
  std::vector<control::JobInfo> in_other_racks = {};  // the job at other racks' servers
  // Of the server, where a job that has failed was asked about; nothing: they are not known.
  std::optional<std::vector<control::SnapshotInfo>> snapshots = {};
};

// The most expensive first; never empty.
std::vector<Reason> explain(const control::JobInfo& job, const Looks& server);

struct RoundPart {
  const char* name;
  double seconds;
};
std::vector<RoundPart> parts_of(const control::JobTiming& timing);
RoundPart longest_part(const control::JobTiming& timing);

// One sentence: how long a round takes and where its time goes. Empty before there is a timing.
std::string round_sentence(const control::JobInfo& job);

// For people, and as one JSON object on one line.
std::string explanation_text(const control::JobInfo& job, const Looks& server);
std::string explanation_json(const control::JobInfo& job, const Looks& server);

}  // namespace phub::phubctl

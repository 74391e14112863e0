// One training run as the control plane sees it: its members, what they have done so far, and
// whether the data plane holds its memory.
//
// Owned by the JobTable and read or written under its mutex only, except for the values behind
// shared_ptr<const ...>, which never change.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/data_plane.h"
#include "server/job_spec.h"

namespace phub::server {

using TimePoint = std::chrono::steady_clock::time_point;

enum class JobState : std::uint8_t {
  kWaiting,  // not all workers are connected
  kRunning,
  kEnded,   // all workers left
  kFailed,  // the reason says why
};

std::string_view name_of(JobState state);

struct Member {
  std::uint32_t worker = 0;
  std::string host;
  std::uint32_t process_id = 0;
  Secret secret{};
  TimePoint last_seen;
  std::uint32_t calls = 0;  // ready and start in progress: the worker lives as long as they do
  bool is_ready = false;
  bool has_left = false;
  bool was_lost = false;
  bool was_told = false;                        // a heartbeat's reply said that the job is over
  std::string transport;                        // "" before it is connected
  std::optional<std::string> transport_reason;  // the worker's words; none before it starts
  std::vector<bool> core_is_connected;
  std::uint32_t cores_connected = 0;
};

// Where the job's chunks are: the same at every worker.
struct Topology {
  std::vector<std::uint32_t> cores_per_server;
  std::uint32_t server_index = 0;
};

// Whether the data plane holds the job.
enum class Memory : std::uint8_t { kNone, kCreating, kHeld, kToRelease, kReleasing, kReleased };

struct Job {
  std::uint64_t id = 0;
  std::uint32_t epoch = 1;
  std::shared_ptr<const JobSpec> spec;
  bool by_admin = false;  // lives without members until it is closed
  JobState state = JobState::kWaiting;
  std::string reason;
  bool ended_by_daemon = false;  // by fail_all: the daemon waits until its workers know
  std::map<std::uint32_t, std::shared_ptr<Member>> members;  // by worker index
  Memory memory = Memory::kNone;
  Topology topology;                 // since kCreating
  std::shared_ptr<const Plan> plan;  // since kHeld
  JobCounters final_counters;        // since kReleased
};

inline bool is_live(const Job& job) {
  return job.state == JobState::kWaiting || job.state == JobState::kRunning;
}

// "worker 2 (host h, pid 123)".
std::string describe(const Member& member);

// Whether every worker of the job is connected to each of this server's `cores`.
bool is_complete(const Job& job, std::uint32_t cores);

// Who keeps the job from starting, and what each has not done yet: "worker 1 has not joined;
// worker 2 (host h, pid 3) has joined but is not ready". At most eight are named.
std::string describe_missing(const Job& job, std::uint32_t cores);

// "[2, 2]", for messages.
std::string describe(const Topology& topology);

// What the data plane is told about the job. REQUIRES: job.plan.
JobShape shape_of(const Job& job);

}  // namespace phub::server

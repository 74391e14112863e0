// One training run as the control plane sees it: its members, what they have done so far, and
// whether the data plane holds its memory.
//
// Owned by the JobTable, whose parts read and write it under the one mutex only, except for the
// values behind shared_ptr<const ...>, which never change.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"
#include "common/samples/ledger.h"
#include "common/steps/step_waits.h"
#include "server/plane/data_plane.h"
#include "server/process/token_bucket.h"
#include "server/tenants/secret.h"
#include "server/tenants/tenant.h"

namespace phub::server {

using TimePoint = std::chrono::steady_clock::time_point;

enum class JobState : std::uint8_t {
  kWaiting,  // not all workers are connected
  kRunning,
  kEnded,   // all workers left, or it was closed or drained with nobody in it
  kFailed,  // the reason says why
};

std::string_view name_of(JobState state);

// Whose job, and which: two tenants may have jobs of one name. A name alone is the default
// tenant's.
struct JobName {
  JobName(const char* of) : name(of) {}             // NOLINT(google-explicit-constructor)
  JobName(std::string of) : name(std::move(of)) {}  // NOLINT(google-explicit-constructor)
  JobName(std::string whose, std::string of) : tenant(std::move(whose)), name(std::move(of)) {}
  auto operator<=>(const JobName&) const = default;  // NOLINT(modernize-use-nullptr): tidy's error

  std::string tenant = std::string(kDefaultTenant);
  std::string name;
};

// "tenant/name", or "name" for the default tenant's.
std::string to_string(const JobName& job);

// How a member is connected to the cores.
struct DataPath {
  std::string transport;              // "" before it is connected
  std::optional<std::string> reason;  // the worker's words; none before it starts
  std::vector<bool> core_is_connected;
  std::uint32_t cores_connected = 0;
};

struct Member {
  explicit Member(const TokenBucket& full) : heartbeats(full) {}

  std::uint32_t worker = 0;  // its seat here
  std::uint32_t index = 0;   // of a worker, among all of the job
  std::string rack = {};     // other than empty: it is no worker but that other rack
  bool is_complete = false;  // that rack: all its workers are connected
  std::string host;
  std::uint32_t process_id = 0;
  std::uint64_t attempt = 0;  // of a rack: which of its process' tries to join this was
  Secret secret{};
  TimePoint secret_issued;  // the data plane takes the secret for a while only
  TimePoint last_seen;
  TokenBucket heartbeats;
  std::uint32_t calls = 0;  // ready and start in progress: the worker lives as long as they do
  bool is_ready = false;
  bool has_left = false;
  bool was_lost = false;
  std::string loss = {};              // why, where the job goes on without it; else empty, also
                                      // of a rack that is asked why its connection closed
  bool is_dropped = false;            // then: by the data plane too
  bool was_told = false;              // a heartbeat's reply said that the job is over
  bool was_named = false;             // in the log, for a value that is not finite
  std::uint64_t known_last_step = 0;  // of a planned end; 0: it has said none
  std::string peer_host = {};         // where it listens for other workers; empty: on this host
  std::uint16_t peer_port = 0;        // 0: it does not
  std::optional<StepWaits> step_waits = {};  // of a worker, its last report; none: it has made none
  DataPath path;
};

// Whether nobody has shown this member's secret since it was issued.
inline bool is_unheard(const Member& member) {
  return member.last_seen == member.secret_issued && member.calls == 0 && !member.is_ready;
}

// Where the job's chunks are: the same at every worker.
struct Topology {
  std::vector<std::uint32_t> cores_per_server;
  std::uint32_t server_index = 0;
  // What other jobs have on each core, server after server, as each server's join said; empty:
  // nothing anywhere.
  std::vector<std::uint64_t> core_load_bytes = {};
};

// Whether the data plane holds the job.
enum class Memory : std::uint8_t { kNone, kCreating, kHeld, kToRelease, kReleasing, kReleased };

// Whether the store has the job, so that it comes back with the next process.
enum class Saved : std::uint8_t { kNo, kWriting, kYes };

// Where the job is on this server.
struct JobPlace {
  Memory memory = Memory::kNone;
  Topology topology;                 // since kCreating
  std::shared_ptr<const Plan> plan;  // since kHeld
  // What other jobs had on each core here when the first member joined: all members are told so.
  std::vector<std::uint64_t> core_load_bytes;
  std::vector<std::uint64_t> placed_bytes;  // of this job on each core here; a guess before kHeld
};

// What counts as memory of the job's tenant.
struct JobBytes {
  std::uint64_t pinned = 0;         // the most that it pins here; since kCreating
  std::uint64_t staged_beyond = 0;  // of tcp's pushes; as last seen
  std::uint64_t copied = 0;         // that its snapshots under way take
};

// The snapshot that a restored job starts from.
struct StartPoint {
  std::string file;  // empty: none
  // What it was planned with, when several servers wrote it: chunks must be where they were.
  std::vector<std::uint64_t> core_load_bytes;
  std::uint64_t rounds_before = 0;  // that are behind it; since kHeld
  SampleLedger samples = {};        // what they used, if the snapshot has it; the same
};

// What became of the snapshots that somebody asked for.
struct SnapshotCounts {
  std::uint64_t taken = 0;
  std::uint64_t failed = 0;  // refused ones included
  std::string last_failure = {};
};

// An end that members were told of before it comes: life.h.
struct JobEnd {
  std::string reason = {};      // empty: none is planned
  std::uint64_t last_step = 0;  // 0: not agreed yet
  bool racks_told = false;      // that all workers of this rack know the last step
};

// Which of the job's racks this server is in; one that has no racks is all of a rack.
struct JobRack {
  std::uint32_t own = 0;
  std::uint32_t first_worker = 0;
  std::uint32_t workers = 0;  // of the own rack: they have the first seats
  std::uint32_t seats = 0;
  bool is_linked = true;     // connected to all other racks' cores
  bool is_linking = false;   // or on the way to that
  bool is_complete = false;  // and to all of its workers: the others may know
  std::string delay = {};    // why it is not linked yet
};
// Errors: kFailedPrecondition where the server's rack is none of them.
Result<JobRack> rack_of(const JobSpec& spec, const std::string& own_rack);
// Of a core: its members', and to the other racks.
inline std::uint32_t connections_of(const JobSpec& spec, const JobRack& rack) {
  return rack.seats * spec.tcp_streams +
         (spec.racks.empty() ? 0 : static_cast<std::uint32_t>(spec.racks.size()) - 1);
}

struct Job {
  std::uint64_t id = 0;
  std::uint32_t epoch = 1;
  Tenant tenant;  // as it was when the job was made
  std::shared_ptr<const JobSpec> spec;
  SampleLedger samples = {};            // what its rounds use, as its workers say
  std::optional<Secret> peer_key = {};  // by which its workers know each other; none asked: none
  bool by_admin = false;                // lives without members until it is closed
  // Its workers had it restored: it ends then if it has no members. None: not so.
  std::optional<TimePoint> unjoined_until = {};
  std::uint64_t base_job_id =
      0;  // its keys were added to that one's, and it fails with it; 0: none
  std::string refused_keys = {};  // lists of keys to be added to it differed: how
  Saved saved = Saved::kNo;
  std::optional<Digest> nonce_hash;  // of what lets a worker join it without a token
  StartPoint start;
  SnapshotCounts snapshots;
  JobState state = JobState::kWaiting;
  std::string reason;
  JobEnd end;
  bool ended_by_daemon = false;  // the daemon waits until its workers know
  std::uint32_t named = 0;       // members, in the log, for values that are not finite
  std::map<std::uint32_t, std::shared_ptr<Member>> members;  // by worker index
  std::string run = {};  // whose workers it takes; empty: none has said
  JobRack rack;
  JobPlace place;
  JobBytes bytes;
  JobCounters final_counters;  // since kReleased
};

inline bool is_live(const Job& job) {
  return job.state == JobState::kWaiting || job.state == JobState::kRunning;
}

inline JobName name_of(const Job& job) { return {job.tenant.name, job.spec->name}; }
// For logs and messages.
inline std::string label(const Job& job) { return to_string(name_of(job)); }

// "worker 2 (host h, pid 123)", "rack b (host h, pid 123)".
std::string describe(const Member& member);
// Two runs may call their jobs the same, and each could get a part of the other's ranks. So a job
// takes workers of one run, that of the first worker that says one, and workers that say none.
Status check_run(const Job& job, const std::string& run);

// Whether every worker of this rack is connected to each of this server's `cores`, and this server
// to the other racks'.
bool is_rack_complete(const Job& job, std::uint32_t cores);
// That, and the same is true in the other racks.
bool is_complete(const Job& job, std::uint32_t cores);
// Of a job in several racks: this one's workers have left, and others' are about to.
bool is_finishing(const Job& job);

// Who keeps the job from starting, and what each has not done yet: "worker 1 has not joined; worker
// 2 (host h, pid 3) has joined but is not ready". At most eight are named.
std::string describe_missing(const Job& job, std::uint32_t cores);

// "[2, 2]", for messages.
std::string describe(const Topology& topology);

// What is said of a job that does not exist, or that the caller may not know of.
Status unknown_job(const std::string& label);
Status no_live_job(const JobName& name);
// What a worker is told when its job has ended.
Status job_is_over(const Job& job);
// What a member's earlier call is told when it calls again.
Status is_replaced(std::string_view call, const Member& member);

// What the data plane is told about the job.
JobLayout layout_of(const Job& job);

}  // namespace phub::server

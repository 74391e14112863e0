// What people and callers read of jobs: copies, which stay as they are.
//
// Owned by the JobTable; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/jobs/job_index.h"

namespace phub::server {

struct MemberView {
  std::uint32_t worker = 0;  // its seat
  std::uint32_t index = 0;   // of a worker, among all
  std::string rack;          // other than empty: it is that other rack
  std::string host;
  std::uint32_t process_id = 0;
  std::string transport;
  std::string transport_reason;  // the worker's words
  std::chrono::milliseconds heartbeat_age{0};
  bool has_left = false;
  bool was_lost = false;                     // and the job goes on without it
  std::optional<StepWaits> step_waits = {};  // none: it does not say
};

// A copy of a job's state, for people.
struct JobView {
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tenant_id = 0;
  std::string tenant = std::string(kDefaultTenant);
  std::shared_ptr<const JobSpec> spec;
  JobState state = JobState::kWaiting;
  std::string reason;
  std::vector<MemberView> members;
  JobRack rack = {};
  JobCounters counters;
  SnapshotCounts snapshots = {};
};

inline JobName name_of(const JobView& view) { return {view.tenant, view.spec->name}; }

// Where a worker listens for the others.
struct PeerView {
  std::uint32_t worker = 0;  // among all of the job
  std::string host;          // empty: on this server's host
  std::uint16_t port = 0;
};

struct PeersView {
  std::vector<PeerView> peers;  // by worker
  Secret key{};                 // of the job, by which they know each other
};

struct PlanView {
  std::shared_ptr<const JobSpec> spec;
  std::shared_ptr<const Plan> plan;
  bool is_preview = false;           // no worker is ready yet: planned for this server alone
  std::uint32_t server_index = 0;    // which server of the plan this one is
  std::vector<CorePort> ports = {};  // of this server, by core; empty: no RDMA
};

// REQUIRES: the mutex. Without the counters of a job that has memory.
JobView view_of(const Job& job, TimePoint now);

class JobViews {
 public:
  explicit JobViews(JobIndex& index) : index_(index) {}

  std::vector<JobView> list() const;  // oldest first
  // `job_id` 0: the live job of that name, else the last one that had it.
  Result<JobView> inspect(const JobName& name, std::uint64_t job_id) const;
  Result<PlanView> plan(const JobName& name) const;
  std::size_t live_jobs() const;
  // The snapshots that live jobs need: these do not expire.
  std::vector<NeededSnapshots> needed_snapshots() const;
  bool is_draining() const;

  // Whose job a member is in. Errors: those of a wrong identity.
  Result<std::string> tenant_of(const Identity& identity) const;
  // Whose job it is; nothing: it is not known, or not any more.
  std::optional<std::string> tenant_of(std::uint64_t job_id) const;
  // Whose job a ticket is for. Errors: kUnauthenticated.
  Result<std::string> tenant_of(const Ticket& ticket) const;

  // What the job's workers plan with: see Topology. Fixed from the first join on.
  std::vector<std::uint64_t> core_load_bytes(std::uint64_t job_id) const;
  // The job's index of the worker in a seat here.
  std::uint32_t index_of(const Identity& identity) const;
  // The workers of this rack that listen for each other: the same for each once the job runs. None:
  // this member does not listen, or is not in the job.
  PeersView peers_of(const Identity& identity) const;
  // Rounds of gradients that a restored job has behind it. REQUIRES: a member's start succeeded.
  std::uint64_t rounds_before(std::uint64_t job_id) const;
  SampleLedger samples_before(std::uint64_t job_id) const;
  // As its workers say; until they do, those before.
  SampleLedger samples(std::uint64_t job_id) const;

 private:
  void fill_counters(std::uint64_t job_id, JobCounters& counters) const;

  JobIndex& index_;
};

}  // namespace phub::server

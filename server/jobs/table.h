// The jobs of a daemon: who is a member of which, and how a job lives and ends.
//
// A job waits for its workers, runs once all are connected to all cores, and ends when all have
// left; it fails as a whole when one worker is lost, and its name is free again at once. Finished
// jobs stay listed for a while.
//
// Owned by the daemon; any control thread may call anything. One mutex guards the table; it is
// never held while planning, while the data plane works, while a worker waits, or while one is
// answered. The data plane calls the MembershipListener functions from its own threads; they only
// mark what the reaper thread (reap) then does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "server/access/directory.h"
#include "server/job/footprint.h"
#include "server/job/spec.h"
#include "server/jobs/job.h"
#include "server/jobs/journal.h"
#include "server/jobs/start_waits.h"
#include "server/plane/data_plane.h"
#include "server/snapshot/store.h"

namespace phub::server {

struct JobTableOptions {
  std::chrono::milliseconds heartbeat_deadline{5000};  // a worker that is silent longer is lost
  std::size_t finished_jobs_max = 64;                  // that stay listed
  std::size_t live_jobs_max = 1024;
  std::uint64_t connections_per_core = 0;  // that the data plane accepts; 0: no bound
  // How long after join or ready the data plane takes a member's secret.
  std::chrono::milliseconds join_secret_lifetime{60'000};
  const TenantDirectory* tenants = nullptr;  // null: the default tenant only, without quotas
  JobStore* journal = nullptr;               // null: nothing outlives the process
  const SnapshotStore* snapshots = nullptr;  // null: no job starts from a snapshot
  // Called by reap for each job that runs when a drain with snapshots ends it.
  std::function<void(const struct JobView&)> before_drain_ends = {};
  std::function<TimePoint()> clock = [] { return std::chrono::steady_clock::now(); };
};

// Says which member calls. The secret is the proof.
struct Identity {
  std::uint64_t job_id = 0;
  std::uint32_t epoch = 0;
  std::uint32_t worker = 0;
  Secret secret{};
};

// Lets whoever has it join one job that an administrator made.
struct Ticket {
  std::uint64_t job_id = 0;
  Digest nonce_hash{};
};

struct JoinArguments {
  std::shared_ptr<const JobSpec> spec;
  std::string tenant = std::string(kDefaultTenant);  // whose job; with a ticket: ignored
  std::optional<Ticket> ticket = {};
  std::int32_t worker_index = -1;  // -1: the table chooses the lowest free one
  std::string host;
  std::uint32_t process_id = 0;
};

struct Heartbeat {
  bool is_live = false;
  std::string reason;  // why not
  std::vector<std::uint32_t> workers_left;
};

struct MemberView {
  std::uint32_t worker = 0;
  std::string host;
  std::uint32_t process_id = 0;
  std::string transport;
  std::string transport_reason;  // the worker's words
  std::chrono::milliseconds heartbeat_age{0};
  bool has_left = false;
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
  JobCounters counters;
};

inline JobName name_of(const JobView& view) { return {view.tenant, view.spec->name}; }

// What a snapshot of a job is made of, and who pays for it.
struct AdmittedCopy {
  Tenant tenant;                          // with the quotas that hold now
  std::shared_ptr<const Plan> plan = {};  // null: the job is not planned
  std::uint32_t server_index = 0;
  std::shared_ptr<const void> counted = {};  // its memory, until this is destroyed
};

struct PlanView {
  std::shared_ptr<const JobSpec> spec;
  std::shared_ptr<const Plan> plan;
  bool is_preview = false;           // no worker is ready yet: planned for this server alone
  std::uint32_t server_index = 0;    // which server of the plan this one is
  std::vector<CorePort> ports = {};  // of this server, by core; empty: no RDMA
};

// What is said of a job that does not exist, or that the caller may not know of.
Status unknown_job(const std::string& label);
Status no_live_job(const JobName& name);
// What a worker is told when its job has ended.
Status job_is_over(const Job& job);

class JobTable final : public MembershipListener {
 public:
  explicit JobTable(JobTableOptions options) : options_(std::move(options)) {}

  // REQUIRES: called once, before any call of a worker; `data_plane` outlives those calls.
  void attach(DataPlane& data_plane);

  // ---- Workers -----------------------------------------------------------------------------

  // The spec's job is made if its tenant has none of that name. Errors: see Rendezvous::join, and
  // kUnauthenticated for a ticket that fits no live job.
  Result<Identity> join(const JoinArguments& arguments);

  // What the job's workers plan with: see Topology. Fixed from the first join on.
  std::vector<std::uint64_t> core_load_bytes(std::uint64_t job_id) const;

  // The first call makes the job on the data plane, which may take long; later ones must agree with
  // it. Those that come meanwhile wait without a thread, and are answered by the first one's.
  void ready(const Identity& identity, const Topology& topology, std::uint64_t plan_hash,
             Answer answer);

  // Keeps and logs why the member came over its transport, the first time that it says so.
  // REQUIRES: `reason` is printable.
  Status note_transport(const Identity& identity, const std::string& reason);

  // Answers when the job runs or has ended. When `timeout` passes first, the job fails: nobody else
  // could start either. A member waits once: a later call of it takes the place of an earlier one,
  // which is told so (kAborted). Returns the wait's number; 0: it is answered.
  std::uint64_t start(const Identity& identity, std::chrono::milliseconds timeout, Answer answer);

  // Who waited under that number has gone: its job fails. Nothing happens when the wait is over.
  void stop_waiting(const Identity& identity, std::uint64_t number);

  // Ends the starts whose time is over. Somebody has to call it now and then.
  void end_late_starts();

  std::size_t waiting_starts() const;

  // Whose job a member is in. Errors: those of a wrong identity.
  Result<std::string> tenant_of(const Identity& identity) const;
  // Whose job it is; nothing: it is not known, or not any more.
  std::optional<std::string> tenant_of(std::uint64_t job_id) const;
  // Whose job a ticket is for. Errors: kUnauthenticated.
  Result<std::string> tenant_of(const Ticket& ticket) const;

  // Rounds of gradients that a restored job has behind it. REQUIRES: a member's start succeeded.
  std::uint64_t rounds_before(std::uint64_t job_id) const;

  // Errors: those of a wrong identity; kResourceExhausted for a member that sends more than any
  // honest one does, which is not lost for that.
  Result<Heartbeat> heartbeat(const Identity& identity);

  // While the job waits, a worker without connections makes room for another; one with connections
  // ends the job, as does the last one to leave.
  Status leave(const Identity& identity);

  // ---- Administration ----------------------------------------------------------------------

  // `snapshot`: a file of options.snapshots that the job starts from; empty: none.
  Result<std::uint64_t> create(const JobSpec& spec,
                               const std::string& tenant = std::string(kDefaultTenant),
                               const std::optional<Digest>& nonce_hash = std::nullopt,
                               const std::string& snapshot = {});
  // The journal has forgotten it when this returns OK. Errors: kNotFound, and the journal's, with
  // which the job lives on.
  Status close(const JobName& name);
  // Of a tenant that is deleted. What stays listed of them is under NAME~ID from then on, which is
  // no tenant's name: who is made under the old name sees none of it.
  void close_all_of(std::uint32_t tenant_id);
  // Jobs of an earlier process, which wait again. REQUIRES: before any other call but attach.
  void restore(const std::vector<SavedJob>& jobs);
  Usage usage_of(const std::string& tenant) const;
  // Counts what a snapshot of the job takes while it is made, as its tenant's memory, until the
  // result is destroyed; that is before this. Errors: kResourceExhausted with the figures.
  Result<AdmittedCopy> admit_copy_of(std::uint64_t job_id);
  // Whether a job of this spec that starts from a file of so many bytes may be made, before the
  // file is read. Errors: those of create, and kResourceExhausted for what it will pin at least.
  Status admit_restored(const JobSpec& spec, const std::string& tenant, std::uint64_t bytes) const;
  std::vector<JobView> list() const;  // oldest first
  // `job_id` 0: the live job of that name, else the last one that had it.
  Result<JobView> inspect(const JobName& name, std::uint64_t job_id) const;
  Result<PlanView> plan(const JobName& name) const;

  // Refuses new jobs from now on, ends those that nobody has joined, and after `timeout` (0: never)
  // those that still live. Returns how many live now.
  // `snapshots`: of what is ended so, before it is.
  std::size_t drain(std::chrono::milliseconds timeout, bool snapshots = false);
  bool is_draining() const;
  std::size_t live_jobs() const;
  void fail_all(const std::string& reason);

  // Waits until a predicate of the table holds. False: `timeout` passed first.
  bool wait_until_idle(std::chrono::milliseconds timeout);  // no live job, all memory released
  bool wait_until_told(std::chrono::milliseconds timeout);  // workers know what fail_all did

  // ---- The reaper thread -------------------------------------------------------------------

  // Fails jobs with silent workers or past the drain's deadline, then releases the memory of
  // finished jobs.
  void reap();

  // Returns when there is memory to release, or after `interval`.
  void wait_for_work(std::chrono::milliseconds interval);

  // ---- MembershipListener: called by the data plane
  // ------------------------------------------------

  std::optional<IssuedSecret> secret_of(std::uint64_t job_id, std::uint32_t epoch,
                                        std::uint32_t worker) override;
  void on_connected(std::uint64_t job_id, std::uint32_t worker, std::uint32_t core,
                    std::string_view transport) override;
  void on_lost(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Gives the answers that were decided under the mutex, after it has given that up.
  class AnsweringLock;
  struct Caller {
    std::shared_ptr<Job> job;
    std::shared_ptr<Member> member;
  };
  struct ReadyCall {
    Identity identity;
    Topology topology;
    std::uint64_t plan_hash = 0;
    Answer answer;
    std::shared_ptr<Member> member = nullptr;  // while it waits
  };

  TimePoint now() const { return options_.clock(); }
  static constexpr int kHeartbeatsAtOnce = 500;
  TokenBucket full_heartbeats() const;
  double heartbeats_per_second() const;

  // Those with silent workers, and all at the drain's deadline. REQUIRES: the mutex is not held.
  void fail_the_late();

  // All of these REQUIRE the mutex, which those with a Lock may give up for a while.
  Result<Caller> authenticate(const Identity& identity) const;
  Result<std::shared_ptr<Job>> add_job(const std::string& tenant,
                                       std::shared_ptr<const JobSpec> spec, bool by_admin);
  Result<std::uint64_t> take_id();
  void stock_ids(Lock& lock);
  Result<Tenant> admit_to_tenant(const std::string& tenant, std::uint32_t workers) const;
  Quotas with_defaults(Quotas quotas) const;
  Result<std::shared_ptr<Job>> job_of(const Ticket& ticket) const;
  Result<std::shared_ptr<Job>> job_to_join(Lock& lock, const JoinArguments& arguments);
  Result<Identity> admit(Job& job, const JoinArguments& arguments, const Secret& secret);
  Status make_ready(Lock& lock, const Caller& caller, const ReadyCall& call);
  void wait_for_memory(const Caller& caller, ReadyCall call);
  Status make_on_data_plane(Lock& lock, Job& job, const Topology& topology,
                            std::uint64_t plan_hash);
  void answer_start(const StartWaits::Key& key, const Status& status);
  void answer_starts(const Job& job, const Status& status);
  Result<Plan> plan_of(Job& job, const JobSpec& spec, const Topology& topology);
  // REQUIRES: the mutex is not held. What is returned is the data plane's memory for it.
  Result<std::shared_ptr<const void>> admit_plan_of(Job& job, const PlanInput& input);
  // Returns what of it counts only until the job is made: the snapshot that it starts from.
  Result<std::uint64_t> admit_memory_of(Job& job);
  Offered offered() const;
  Result<Tenant> owner_of(const Job& job) const;  // as it is now
  Status admit_live_job() const;
  Status check_free(const JobName& name) const;
  Usage usage_without(const std::string& tenant, const Job* left_out) const;
  void fix_core_load(Job& job) const;
  Result<std::vector<std::uint64_t>> snapshot_load_bytes(const std::string& file) const;
  std::vector<std::uint64_t> core_load_without(const Job& job) const;
  void tell_journal(Lock& lock);
  Result<std::uint64_t> create_job(JobLayout shape, const std::string& snapshot);
  Status release_before_creating(Lock& lock);
  void release_finished(Lock& lock);
  void lose(Job& job, Member& member, std::string_view reason);
  void finish(Job& job, JobState state, const std::string& reason);
  void forget_oldest();
  static void forget_keys(Job& job);
  std::vector<std::shared_ptr<Job>> all_live() const;
  std::shared_ptr<Job> live_job(const JobName& name) const;
  bool has_memory(Memory memory) const;
  JobView view_of(const Job& job) const;
  void fill_counters(std::uint64_t job_id, JobCounters& counters) const;

  const JobTableOptions options_;
  DataPlane* data_plane_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable changed_;                     // of any job's state, members or memory
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;  // by id, live and finished
  std::map<JobName, std::uint64_t> live_by_name_;
  StartWaits starts_;
  std::uint64_t starts_made_ = 0;
  std::map<std::uint64_t, std::vector<ReadyCall>> ready_waits_;  // for memory that is being made
  std::vector<std::pair<Answer, Status>> answers_;               // that an AnsweringLock gives
  std::uint64_t next_id_ = 1;
  std::uint64_t ids_end_ = 1;                // from next_id_ up to here are this process's to give
  std::vector<std::uint64_t> journal_ends_;  // jobs that the journal has to forget
  std::vector<std::uint64_t> journal_late_;  // those of them that it could not
  bool is_draining_ = false;
  bool drain_snapshots_ = false;
  std::optional<TimePoint> drain_deadline_;
};

class JobTable::AnsweringLock : public std::unique_lock<std::mutex> {
 public:
  explicit AnsweringLock(JobTable& table)
      : std::unique_lock<std::mutex>(table.mutex_), table_(table) {}
  ~AnsweringLock() {
    if (owns_lock()) unlock();
  }
  AnsweringLock(const AnsweringLock&) = delete;
  AnsweringLock& operator=(const AnsweringLock&) = delete;

  void unlock() {
    const auto answers = std::exchange(table_.answers_, {});
    std::unique_lock<std::mutex>::unlock();
    for (const auto& [answer, status] : answers) answer(status);
  }

 private:
  JobTable& table_;
};

}  // namespace phub::server

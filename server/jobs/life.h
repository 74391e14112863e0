// How jobs come to be and how they end, whoever wants it: workers, administrators, or the daemon.
//
// A job is listed from the moment that it is admitted, and ends once. With it end the waits of its
// members for the start, and what the store has of it.
//
// An end may be planned before it comes. Somebody asks for it: a member, by a heartbeat, or the
// daemon, before it stops. All members hear why by their next heartbeats. Worker 0 proposes the
// last step, and hears when all others know it. That ends no job: its members leave it, or a
// drain's deadline comes.
//
// Owned by the JobTable; any control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/jobs/job_index.h"
#include "server/jobs/saved_jobs.h"
#include "server/jobs/start_barrier.h"
#include "server/jobs/usage.h"

namespace phub::server {

// What a member says of a planned end with a heartbeat.
struct EndWords {
  std::string wanted = {};  // printable: why it wants the end; empty: it does not
  std::uint64_t last_step = 0;
  std::uint64_t known_last_step = 0;
};

class JobLife {
 public:
  JobLife(JobIndex& index, SavedJobs& saved, StartBarrier& starts, JobUsage& usage)
      : index_(index), saved_(saved), starts_(starts), usage_(usage) {}

  // ---- Administration -----------------------------------------------------------------------

  // `snapshot`: a file of options.snapshots that the job starts from; empty: none. Then a job of
  // that name which an administrator made and nobody has joined becomes that job, and keeps its id
  // and its nonce. `by_workers`: RestoreRequest.by_workers.
  Result<std::uint64_t> create(const JobSpec& spec,
                               const std::string& tenant = std::string(kDefaultTenant),
                               const std::optional<Digest>& nonce_hash = std::nullopt,
                               const std::string& snapshot = {}, bool by_workers = false);
  // Whether a job of this spec that starts from a file of so many bytes may be made, before the
  // file is read. Errors: those of create, and kResourceExhausted for what it will pin at least.
  Status admit_restored(const JobSpec& spec, const std::string& tenant, std::uint64_t bytes) const;
  // The store has forgotten it when this returns OK. Errors: kNotFound, kFailedPrecondition for
  // keys that were added to a job that lives, and the store's, with which the job lives on.
  Status close(const JobName& name);
  // Of a tenant that is deleted. What stays listed of them is under NAME~ID from then on, which is
  // no tenant's name: who is made under the old name sees none of it.
  void close_all_of(std::uint32_t tenant_id);
  // Jobs of an earlier process, which wait again. One that cannot be read is logged and left out.
  // REQUIRES: before any other call but attach.
  void restore(const std::vector<StoredJob>& jobs);

  // What became of a snapshot of it: counted, for who asks how the job fares.
  void note_snapshot(std::uint64_t job_id, const Status& outcome);

  // ---- The start barrier --------------------------------------------------------------------

  // Who waited under that number has gone: its job fails. Nothing happens when the wait is over.
  void stop_waiting(const Identity& identity, std::uint64_t number);
  // Fails jobs of members whose time to wait is over. Somebody has to call it now and then.
  void end_late_starts();

  // ---- All below REQUIRE the mutex ----------------------------------------------------------

  // Errors: those of the limits, the racks and the quotas.
  Result<std::shared_ptr<Job>> add(const std::string& tenant, std::shared_ptr<const JobSpec> spec,
                                   bool by_admin);
  // REQUIRES: the job lives, and the caller keeps it.
  void finish(Job& job, JobState state, const std::string& reason);
  void lose(Job& job, Member& member, std::string_view reason);
  // The first reason stays. Nothing happens where the job is over.
  static void announce_end(Job& job, const std::string& reason);
  // The first step stays. A job whose end nobody has asked for has none.
  static void set_last_step(Job& job, std::uint64_t last_step);
  // Keeps what a member says. Only worker 0's last step counts. Where all workers of this rack know
  // the step, the other racks are told.
  void take_end_words(Job& job, Member& member, const EndWords& words);
  // Whether all members but `asking` that are still there know the last step.
  static bool all_know_last_step(const Job& job, const Member& asking);
  // Ends the jobs whose keys were added to that one's; `waiting_only`: those that wait for members.
  void fail_added_to(std::uint64_t job_id, const std::string& reason, bool waiting_only = false);

 private:
  // Null: the name is free, or of a job that may start from a snapshot instead, which is returned.
  // Errors: kAlreadyExists.
  Result<std::shared_ptr<Job>> place_for(const JobName& name, bool restores) const;
  // The job is of that spec from now on. REQUIRES: place_for returned it.
  Status start_instead(Job& job, std::shared_ptr<const JobSpec> spec);
  Status check_ends_alone(const Job& job) const;
  void tell_racks_of_end(Job& job);
  Result<std::shared_ptr<Job>> restored(const StoredJob& stored) const;
  Result<std::vector<std::uint64_t>> snapshot_load_bytes(const std::string& file) const;

  JobIndex& index_;
  SavedJobs& saved_;
  StartBarrier& starts_;
  JobUsage& usage_;
};

}  // namespace phub::server

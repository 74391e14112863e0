// The jobs of a daemon: who is a member of which, and how a job lives and ends.
//
// A job waits for its workers, runs once all are connected to all cores, and ends when all have
// left; it fails as a whole when one worker is lost, and its name is free again at once. Finished
// jobs stay listed for a while.
//
// Owned by the daemon; any control thread may call anything; see the parts. One mutex, the index's,
// guards them all. The data plane calls `members` from its own threads, which only mark what the
// reaper thread (reap) then does.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "server/jobs/job_index.h"
#include "server/jobs/life.h"
#include "server/jobs/members.h"
#include "server/jobs/placement.h"
#include "server/jobs/saved_jobs.h"
#include "server/jobs/start_barrier.h"
#include "server/jobs/usage.h"
#include "server/jobs/views.h"

namespace phub::server {

class JobTable {
 public:
  explicit JobTable(JobTableOptions options) : index_(std::move(options)) {}

  JobUsage usage{index_};
  StartBarrier starts{index_};
  JobLife life{index_, saved_, starts, usage};
  Placement placement{index_, usage};
  JobMembers members{index_, life, starts};
  JobViews views{index_};

  // REQUIRES: called once, before any call of a worker; `data_plane` outlives those calls.
  void attach(DataPlane& data_plane) { index_.attach(data_plane); }

  // What the job uses of its samples, as a worker says. Errors: kInvalidArgument for one that makes
  // no sense, or that another worker says otherwise.
  Status note_samples(const Identity& identity, const SampleLedger& ledger);

  // The worker listens there for the others of its rack; all say it before they are connected.
  // Errors: those of a wrong identity; kPermissionDenied, a rack says it; kAborted, it is not in
  // the job.
  Status note_peer(const Identity& identity, const std::string& host, std::uint16_t port);

  RackLinks* links() const { return index_.options.links; }  // null: no racks are known here

  // Refuses new jobs from now on, ends those that nobody has joined, and after `timeout` (0: never)
  // those that still live. Their workers are told to stop as planned, options.end_notice before
  // that. Returns how many live now. `snapshots`: of what is ended so, before it is.
  std::size_t drain(std::chrono::milliseconds timeout, bool snapshots = false);
  void fail_all(const std::string& reason);

  // Waits until a predicate of the table holds. False: `timeout` passed first.
  bool wait_until_idle(std::chrono::milliseconds timeout);  // no live job, all memory released
  bool wait_until_told(std::chrono::milliseconds timeout);  // workers know what fail_all did

  // ---- The reaper thread --------------------------------------------------------------------

  // Fails jobs with silent workers or past the drain's deadline, then releases the memory of
  // finished jobs.
  void reap();

  // Returns when there is memory to release, or after `interval`.
  void wait_for_work(std::chrono::milliseconds interval);

 private:
  void announce_drain();  // REQUIRES: the mutex
  void fail_the_late();
  void end_drained(JobIndex::Lock& lock);
  void end_together(JobIndex::Lock& lock, const std::vector<std::shared_ptr<Job>>& jobs);
  void drop_the_lost();
  void name_culprits();  // of values that are not finite

  JobIndex index_;
  SavedJobs saved_{index_};
  bool drain_snapshots_ = false;
  std::optional<TimePoint> drain_deadline_;
  std::optional<TimePoint> drain_notice_;  // when workers are told; nothing: they are, or never
};

}  // namespace phub::server

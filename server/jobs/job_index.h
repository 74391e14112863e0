// The jobs by id and by name, who calls for which, and the one mutex of the job table.
//
// A live job is found by its name and its id. One that has ended is found by its id only, for as
// long as it stays listed; its name is free.
//
// Owned by the JobTable, shared by its parts: each call of theirs takes the Lock, and may give it
// up for a while. It is never held while planning, while the data plane works, or while somebody
// waits or is replied to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "server/access/directory.h"
#include "server/jobs/job.h"
#include "server/plane/data_plane.h"
#include "server/snapshot/store.h"
#include "server/state/store.h"

namespace phub::server {

// Where what must outlive the process is written: the jobs that administrators made, and which ids
// were given out. Made by the daemon; any control thread, without the mutex. Without functions
// nothing outlives the process.
struct JobStore {
  // An error says why nothing was written; the job must not exist then.
  std::function<Status(const StoredJob& job)> add = {};
  // When this is OK the job does not come back. Once more is harmless.
  std::function<Status(std::uint64_t job_id)> remove = {};
  // The first of `count` ids that no job has ever had.
  std::function<Result<std::uint64_t>(std::uint64_t count)> reserve_ids = {};

  bool is_there() const { return add != nullptr; }
};

class RackLinks;

struct JobTableOptions {
  std::chrono::milliseconds heartbeat_deadline{5000};  // a worker that is silent longer is lost
  std::size_t finished_jobs_max = 64;                  // that stay listed
  std::size_t live_jobs_max = 1024;
  std::uint64_t connections_per_core = 0;  // that the data plane accepts; 0: no bound
  // How long after join or ready the data plane takes a member's secret.
  std::chrono::milliseconds join_secret_lifetime{60'000};
  const TenantDirectory* tenants = nullptr;  // null: the default tenant only, without quotas
  JobStore store = {};                       // without functions: nothing outlives the process
  const SnapshotStore* snapshots = nullptr;  // null: no job starts from a snapshot
  std::string rack = {};       // this server's; empty: it takes no jobs of several racks
  RackLinks* links = nullptr;  // to the servers of other racks; null: `rack` is empty
  // Workers are told to stop this long before a drain's deadline; at once if it is less away.
  std::chrono::milliseconds end_notice{10'000};
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

// Tells a caller how its call ended. Is called once, without the mutex, and returns at once.
using Reply = std::function<void(const Status&)>;

class JobIndex {
 public:
  // Holds the mutex, and gives the replies that were decided under it when it has given that up.
  class Lock;

  struct Caller {
    std::shared_ptr<Job> job;
    std::shared_ptr<Member> member;
  };

  explicit JobIndex(JobTableOptions table_options) : options(std::move(table_options)) {}

  const JobTableOptions options;
  std::condition_variable changed;  // any job's state, members or memory

  TimePoint now() const { return options.clock(); }
  // REQUIRES: called once, before any call of a worker.
  void attach(DataPlane& data_plane);
  DataPlane* data_plane() const { return data_plane_; }  // null before attach
  std::uint32_t cores() const { return data_plane_ == nullptr ? 0 : data_plane_->cores(); }

  // ---- All below REQUIRE the mutex. Null: there is none such. -------------------------------

  std::shared_ptr<Job> find(std::uint64_t job_id) const;
  std::shared_ptr<Job> find_live(const JobName& name) const;
  // Errors: kUnauthenticated.
  Result<std::shared_ptr<Job>> find(const Ticket& ticket) const;
  // Errors: kNotFound, kPermissionDenied.
  Result<Caller> authenticate(const Identity& identity) const;

  const std::map<std::uint64_t, std::shared_ptr<Job>>& all() const { return jobs_; }
  // A copy, because an ended job may leave the index.
  std::vector<std::shared_ptr<Job>> all_live() const;
  std::size_t live_jobs() const { return live_by_name_.size(); }
  bool has_memory(Memory memory) const;

  // Whether one more job may live. Errors: kUnavailable, kResourceExhausted.
  Status admit_one_more() const;
  void refuse_more() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }

  void add(std::shared_ptr<Job> job);
  void end(Job& job, JobState state, const std::string& reason);
  // Ended jobs beyond finished_jobs_max leave, oldest first, but for those with memory.
  void forget_oldest();

  void reply_later(Reply reply, Status status) {
    replies_.emplace_back(std::move(reply), std::move(status));
  }

 private:
  DataPlane* data_plane_ = nullptr;

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;
  std::map<JobName, std::uint64_t> live_by_name_;
  bool is_draining_ = false;
  std::vector<std::pair<Reply, Status>> replies_;
};

class JobIndex::Lock : public std::unique_lock<std::mutex> {
 public:
  explicit Lock(JobIndex& index) : std::unique_lock<std::mutex>(index.mutex_), index_(index) {}
  ~Lock() {
    if (owns_lock()) unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void unlock() {
    const auto replies = std::exchange(index_.replies_, {});
    std::unique_lock<std::mutex>::unlock();
    for (const auto& [reply, status] : replies) reply(status);
  }

 private:
  JobIndex& index_;
};

// Of an ended job that has many: a list of them is for people, and takes its tenant's allowance.
void forget_keys(Job& job);

}  // namespace phub::server

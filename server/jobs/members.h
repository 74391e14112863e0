// The members of jobs: who joins, gives signs of life, is connected, leaves or is lost.
//
// A member belongs to a job that waited when it joined. While the job waits, one without
// connections may leave and make room; from then on it stays listed until the job has ended.
//
// Owned by the JobTable. Control threads call the first part, the data plane's threads the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/job/rack_links.h"
#include "server/jobs/job_index.h"
#include "server/jobs/life.h"
#include "server/jobs/start_barrier.h"

namespace phub::server {

struct JoinArguments {
  std::shared_ptr<const JobSpec> spec;
  std::string tenant = std::string(kDefaultTenant);  // whose job; with a ticket: ignored
  std::optional<Ticket> ticket = {};
  std::int32_t worker_index = -1;  // -1: the lowest free one
  std::string host;
  std::uint32_t process_id = 0;
  std::string run = {};               // whose worker it is; empty: it does not say
  std::string rack = {};              // other than empty: it is no worker but that rack
  std::optional<Identity> base = {};  // the member of another job that adds these keys to it
  std::uint64_t attempt = 0;          // of a rack: JoinRequest.attempt
  bool after_first = false;           // JoinRequest.after_first
  // Whether nobody waits for the reply any more; empty: somebody does.
  std::function<bool()> is_given_up = {};
};

struct HeartbeatReply {
  bool is_live = false;
  std::string reason;  // why not
  std::vector<std::uint32_t> workers_left;
  std::vector<std::uint32_t> workers_lost = {};  // that the job goes on without
  std::string ending = {};      // why the job is to end, as planned; empty: it is not
  std::uint64_t last_step = 0;  // then: after which all stop; 0: not agreed
  bool all_know = false;        // all others know that
};

class JobMembers final : public MembershipListener, public RackEvents {
 public:
  JobMembers(JobIndex& index, JobLife& life, StartBarrier& starts)
      : index_(index), life_(life), starts_(starts) {}

  // The spec's job is made if its tenant has none of that name. Errors: see Rendezvous::join, and
  // kUnauthenticated for a ticket that fits no live job, kAborted for a join that was given up
  // before it was executed, kUnavailable for one that is too early (after_first).
  Result<Identity> join(const JoinArguments& arguments);
  // The reply to this join did not arrive: its member makes room, unless it has been heard of.
  void withdraw(const Identity& identity);

  // Errors: those of a wrong identity; kResourceExhausted for a member that sends more than any
  // honest one does, which is not lost for that.
  // `rack_is_complete`: of a rack, its workers are all connected. `steps`: of a worker, what its
  // last ones took, which is kept until the next report; nothing: it does not say.
  Result<HeartbeatReply> heartbeat(const Identity& identity, bool rack_is_complete = false,
                                   const EndWords& end = {},
                                   const std::optional<StepWaits>& steps = {});

  // Keeps and logs why the member came over its transport, the first time that it says so.
  // REQUIRES: `reason` is printable.
  Status note_transport(const Identity& identity, const std::string& reason);

  // While the job waits, a worker without connections makes room for another; one with connections
  // ends the job, as does the last one to leave. `reason`: of a rack where the job has failed.
  Status leave(const Identity& identity, const std::string& reason = {});

  std::optional<IssuedSecret> secret_of(std::uint64_t job_id, std::uint32_t epoch,
                                        std::uint32_t worker) override;
  void on_connected(std::uint64_t job_id, std::uint32_t worker, std::uint32_t core,
                    std::string_view transport) override;
  void on_lost(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) override;
  void on_left_behind(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) override;
  void on_delayed(std::uint64_t job_id, const std::string& reason) override;
  void on_linked(std::uint64_t job_id) override;
  void on_unlinked(std::uint64_t job_id, const std::string& reason) override;
  void on_rack_lost(std::uint64_t job_id, const std::string& rack,
                    const std::string& reason) override;
  void on_end_planned(std::uint64_t job_id, const std::string& reason,
                      std::uint64_t last_step) override;

  // A worker is lost. Its job fails, unless it has a quorum without it. REQUIRES: the mutex.
  void lose(Job& job, Member& member, std::string_view reason);

 private:
  static constexpr int kHeartbeatsAtOnce = 500;

  // These REQUIRE the mutex, which the one with a Lock gives up for a while.
  Result<std::shared_ptr<Job>> job_to_join(JobIndex::Lock& lock, const JoinArguments& arguments);
  // The job that keys are added to; null: none are. Errors: it is over, or lists have differed.
  Result<std::shared_ptr<Job>> base_of(const JoinArguments& arguments) const;
  // Tells all who add keys, now or later, why one of them was refused. Not the mutex.
  void refuse_added_keys(const JoinArguments& arguments, const Status& refusal);
  // Ends a job that waits for a rack which would make another one of it.
  void end_if_racks_differ(Job& job, const JoinArguments& arguments, const Status& difference);
  Result<Identity> admit(Job& job, const JoinArguments& arguments, const Secret& secret);
  void lose_rack(Job& job, Member& member, const std::string& reason, bool is_known);
  void note_left(Job& job, const Member& member);
  void end_if_all_left(Job& job);
  void run_if_complete(Job& job);

  JobIndex& index_;
  JobLife& life_;
  StartBarrier& starts_;
};

}  // namespace phub::server

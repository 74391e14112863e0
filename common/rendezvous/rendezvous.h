// The worker's end of the control plane: joins one server's job, waits for the others, heartbeats.
//
// A Rendezvous speaks for one worker at one server; a client holds one for each server. join,
// ready and start are called in this order by one thread. After join, heartbeat may run in another
// thread, also while ready or start wait, and should do so every JoinInfo::heartbeat_interval: a
// worker that is silent for the server's heartbeat deadline is lost. Call leave BEFORE the data
// connections are closed; a connection that closes first ends the job for everybody.
// Every call has a deadline; errors name the server, and the worker that caused them. Each call has
// a form that begins it and returns, so that many servers are asked at once (membership.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"
#include "common/rendezvous/client_security.h"
#include "common/rendezvous/join_info.h"
#include "common/rendezvous/peer_group.h"
#include "common/rendezvous/planned_end.h"
#include "common/samples/ledger.h"
#include "common/steps/recent_steps.h"

namespace phub::control {
class HeartbeatReply;
class HeartbeatRequest;
class JoinReply;
class JoinRequest;
}  // namespace phub::control

namespace phub::client {

struct Beat {
  bool running = false;             // false: the job has ended or failed, or the server forgot it
  std::string reason;               // why it is not running; names the worker that was lost
  std::vector<std::uint32_t> left;  // workers that have left; a wait for them never ends
  std::vector<std::uint32_t> lost = {};  // workers that the job goes on without
};

// Another rack's server, as it joins.
struct JoiningRack {
  std::string name;
  std::string address;                // its server's
  std::string tenant_shared_id = {};  // by which the racks know the job's tenant as one
};

// When a worker joins that comes after a loss (JoinRequest.after_first).
struct JoinsWhen {
  // Once a job waits for members and has worker 0; worker 0: once the name is free, or its job
  // waits.
  bool after_first = false;
  bool waits = true;  // for that, and does not fail at once
};

// A call under way: calling this waits for its outcome, once. Dropped earlier, it gives the call
// up. It must not live longer than its Rendezvous.
template <typename Outcome>
struct Later {
  Outcome operator()() const { return wait(); }

  std::function<Outcome()> wait;
  std::function<bool()> is_over;  // then waiting takes no time
};

class ServerCalls;

class Rendezvous {
 public:
  struct Before {
    std::uint64_t rounds = 0;   // of gradients; 0: a new job
    SampleLedger samples = {};  // what they have used, if that is known; per_round is 0
  };

  // `address` is the server's control address, "host:port" or "[::1]:port". Connects at the first
  // call. `server` is its place in the job's list of servers. Errors: kInvalidArgument for an
  // address that does not parse, for files of `security` that are wrong. `stop` ends what waits
  // for others, join, ready, start and snapshot, with kAborted; the other calls go on.
  static Result<std::unique_ptr<Rendezvous>> create(const std::string& address,
                                                    const ClientSecurity& security = {},
                                                    std::size_t server = 0,
                                                    std::stop_token stop = {});

  ~Rendezvous();  // does not leave
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Becomes a member: worker `index`, or the one that the server chooses (-1). `base`: what the
  // worker is in the job here that the keys are added to; null: in none. Keeps trying until
  // `timeout` while no server replies. Called until it succeeds. Errors: kUnauthenticated (no
  // credentials that are accepted), kUnavailable (no server replies; the server is draining),
  // kAlreadyExists (index taken, job full), kInvalidArgument (a field that differs from the job's,
  // with both values).
  Result<JoinInfo> join(const JobSpec& job, std::chrono::milliseconds timeout,
                        std::int32_t index = -1, const JoinInfo* base = nullptr);
  // kUnavailable says what `when` lacks.
  // REQUIRES: `job` lives until then.
  Later<Result<JoinInfo>> begin_join(const JobSpec& job, std::chrono::milliseconds timeout,
                                     std::int32_t index, const JoinInfo* base, JoinsWhen when = {});
  // The same for a rack's server, which is no worker: see server/racks.
  Result<JoinInfo> join_as_rack(const JobSpec& job, const JoiningRack& rack,
                                std::chrono::milliseconds timeout);

  // Tells the whole topology and the hash of the plan made from it; the server then holds the
  // job's memory and accepts this worker's data connections. `cores_per_server` has one entry for
  // each server, `server_index` says which of them this server is; `core_load_bytes` is what their
  // joins said, one after another (empty: nothing anywhere).
  // Errors: kFailedPrecondition (plan or topology differ, both are printed), kResourceExhausted.
  Status ready(const std::vector<std::uint32_t>& cores_per_server,
               const std::vector<std::uint64_t>& core_load_bytes, std::uint32_t server_index,
               std::uint64_t plan_hash, std::chrono::milliseconds timeout);
  Later<Status> begin_ready(const std::vector<std::uint32_t>& cores_per_server,
                            const std::vector<std::uint64_t>& core_load_bytes,
                            std::uint32_t server_index, std::uint64_t plan_hash,
                            std::chrono::milliseconds timeout);

  // Returns when every worker is connected to every core of this server. `transport_reason` says
  // why this one came over the transport that it did; the server shows it to people.
  // Errors: kDeadlineExceeded names the missing workers; kAborted says why the job failed.
  Status start(std::chrono::milliseconds timeout, const std::string& transport_reason);
  Later<Status> begin_start(std::chrono::milliseconds timeout, const std::string& transport_reason);

  // Has ready say where this worker listens for the others, so that start brings `peers`.
  void listen_for_peers(const PeerListens& listens) { listens_ = listens; }
  // The workers that listen for each other. None: this one does not. REQUIRES: start succeeded.
  const PeerGroup& peers() const { return peers_; }

  // What a restored job has behind it. REQUIRES: ready or start succeeded.
  const Before& before() const { return before_; }
  // Errors: kInvalidArgument names what another worker says otherwise.
  Later<Status> begin_note_samples(const SampleLedger& ledger, std::chrono::milliseconds timeout);

  // Heartbeats from now on carry what this member says of a planned end, and their replies are
  // read into it. `is_first`: this is the server that decides. `end` outlives the heartbeats.
  void share(PlannedEnd* end, bool is_first) {
    end_ = end;
    end_is_decided_here_ = is_first;
  }
  // Heartbeats from now on report these steps. `steps` outlives the heartbeats.
  void report(const RecentSteps* steps) { steps_ = steps; }

  // An error means that the server did not reply in time, not that the job has ended.
  // `rack_is_complete`: of a rack, all its workers are connected.
  Result<Beat> heartbeat(std::chrono::milliseconds timeout, bool rack_is_complete = false);

  // The same, without waiting for it. `done` is called once, by a thread of gRPC's, never within
  // this call. What is returned cancels it: `done` comes then without a reply, as an error.
  // REQUIRES: this object lives until then, and what is returned not longer: it holds the channel,
  // which must not end in a thread of gRPC's (1.51 waits there for that same thread).
  std::function<void()> begin_heartbeat(std::chrono::milliseconds timeout, bool rack_is_complete,
                                        std::function<void(const Result<Beat>&)> done);

  // Has the server keep the job as it is when `round` (the first one is 1) is over. Returns what
  // `phubctl restore` is to be told, as "FILE at ADDRESS". A worker's server also asks the servers
  // that have its place in other racks; their files follow. Errors: kFailedPrecondition (a server
  // keeps no state), kResourceExhausted.
  using Files = std::vector<std::string>;
  Result<Files> snapshot(std::uint64_t round, std::chrono::milliseconds timeout);
  Later<Result<Files>> begin_snapshot(std::uint64_t round, std::chrono::milliseconds timeout);

  // `file` as phubctl names it, without its server.
  Later<Status> begin_delete_snapshot(const std::string& file, std::chrono::milliseconds timeout);

  // `reason`: of a rack where the job has failed.
  Status leave(std::chrono::milliseconds timeout, const std::string& reason = {});
  Later<Status> begin_leave(std::chrono::milliseconds timeout, const std::string& reason = {});

  const std::string& address() const;

 private:
  Rendezvous(std::unique_ptr<ServerCalls> calls, std::stop_token stop);
  Later<Result<JoinInfo>> begin_join(const JobSpec& job, const control::JoinRequest& caller,
                                     std::chrono::milliseconds timeout, bool tries_again = true);
  Result<JoinInfo> read_join(const control::JoinReply& reply, std::uint32_t workers_max) const;
  template <typename Request>
  Request identified() const;
  control::HeartbeatRequest heartbeat_request(bool rack_is_complete) const;
  void hear(const Status& status, const control::HeartbeatReply& reply) const;

  std::unique_ptr<ServerCalls> calls_;
  std::stop_token stop_;
  JoinInfo joined_;
  Before before_;
  PeerListens listens_;
  PeerGroup peers_;
  PlannedEnd* end_ = nullptr;  // null: nobody asks
  bool end_is_decided_here_ = false;
  const RecentSteps* steps_ = nullptr;  // null: nobody reports any
};

}  // namespace phub::client

// The gRPC service Rendezvous: what workers call. Translates between messages and the job table.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "proto/control.grpc.pb.h"
#include "server/jobs/table.h"
#include "server/process/control_threads.h"
#include "server/process/token_bucket.h"
#include "server/rpc/authorizer.h"
#include "server/snapshot/snapshotter.h"
#include "server/tenants/key_allowance.h"

namespace phub::server {

// What every worker is told about the daemon.
struct Offer {
  std::uint32_t cores = 0;
  std::uint16_t tcp_port = 0;  // 0: not offered
  std::string shm_socket;      // empty: not offered
  std::vector<CorePort> rdma;  // by core; empty: no verbs
  std::string boot_id;         // of this host
  std::uint32_t heartbeat_interval_ms = 0;
  bool encrypts_data = false;  // the tcp streams
};

// Starts wait without a thread, and heartbeats for nothing: gRPC's few threads only look at the job
// table. What takes long (joins compare a million keys, ready plans and makes memory) is left to
// other threads.
class RendezvousService final : public control::Rendezvous::CallbackService {
 public:
  // `snapshotter` null: the server has no state folder. `threads` outlives the calls. All messages
  // of a join come within `join_patience`, or it is refused.
  RendezvousService(JobTable& table, Offer offer, Snapshotter* snapshotter, Tenancy* tenancy,
                    const ControlPeers& peers, CallThreads& threads,
                    std::chrono::milliseconds join_patience)
      : table_(table),
        offer_(std::move(offer)),
        snapshotter_(snapshotter),
        tenancy_(tenancy),
        authorizer_(tenancy, peers),
        peers_(peers),
        threads_(threads),
        join_patience_(join_patience) {}

  // In join.cc.
  grpc::ServerReadReactor<control::JoinRequest>* Join(grpc::CallbackServerContext* context,
                                                      control::JoinReply* reply) override;
  grpc::ServerUnaryReactor* Ready(grpc::CallbackServerContext* context,
                                  const control::ReadyRequest* request,
                                  control::ReadyReply* reply) override;
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context,
                                  const control::StartRequest* request,
                                  control::StartReply* reply) override;
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const control::HeartbeatRequest* request,
                                      control::HeartbeatReply* reply) override;
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context,
                                  const control::LeaveRequest* request,
                                  control::LeaveReply* reply) override;
  grpc::ServerUnaryReactor* Samples(grpc::CallbackServerContext* context,
                                    const control::SamplesRequest* request,
                                    control::SamplesReply* reply) override;
  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context,
                                     const control::SnapshotRequest* request,
                                     control::TakeReply* reply) override;

 private:
  // Of one tenant's jobs: seven that have a million keys.
  static constexpr std::uint64_t kKeyBytesOfTenant = std::uint64_t{1} << 30;

  class JoinCall;
  class WaitingStart;

  Result<Identity> join(const grpc::ServerContextBase& context, const JoinArguments& arguments,
                        control::JoinReply& reply);
  // Whether a tenant is the same here and in the rack that joins for it. Errors: kPermissionDenied.
  Status check_shared(const std::string& tenant, const control::JoinRequest& request) const;
  void fill_offer(control::JoinReply& reply) const;
  // Keeps where the worker listens for others, if it says so.
  Status note_peer(const grpc::ServerContextBase& context, const Identity& identity,
                   const control::ReadyRequest& request);
  Status heartbeat(const control::HeartbeatRequest& request, control::HeartbeatReply& reply);
  // The job of a member. Errors: kNotFound, kPermissionDenied: the caller is none.
  Result<JobView> job_of(const control::SnapshotRequest& request);
  Status snapshot(const grpc::CallbackServerContext& context, const JobView& job,
                  const control::SnapshotRequest& request, control::TakeReply& reply,
                  grpc::ServerUnaryReactor& reactor);
  // Whether a refusal of a member is audited: one a second, after a few at once, so that a worker
  // which asks for ever pushes nobody else's acts out of the log.
  bool audits_refusal();

  JobTable& table_;
  const Offer offer_;
  Snapshotter* const snapshotter_;
  Tenancy* const tenancy_;  // null: there are no tenants
  const Authorizer authorizer_;
  const ControlPeers& peers_;
  CallThreads& threads_;
  const std::chrono::milliseconds join_patience_;
  KeyAllowance keys_{kKeyBytesOfTenant};
  std::mutex refusals_mutex_;
  TokenBucket refusals_{1.0, 16.0, TokenBucket::Clock::now()};
};

}  // namespace phub::server

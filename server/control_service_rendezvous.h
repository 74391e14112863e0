// The gRPC service Rendezvous: what workers call. Translates between messages and the job table.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "proto/control.grpc.pb.h"
#include "server/control_service_gate.h"
#include "server/job_table.h"
#include "server/snapshot/snapshotter.h"
#include "server/token_bucket.h"

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

class RendezvousService final : public control::Rendezvous::Service {
 public:
  // `snapshotter` null: the server has no state folder.
  RendezvousService(JobTable& table, Offer offer, Snapshotter* snapshotter, Tenancy* tenancy)
      : table_(table), offer_(std::move(offer)), snapshotter_(snapshotter), gate_(tenancy) {}

  grpc::Status Join(grpc::ServerContext* context, const control::JoinRequest* request,
                    control::JoinReply* reply) override;
  grpc::Status Ready(grpc::ServerContext* context, const control::ReadyRequest* request,
                     control::ReadyReply* reply) override;
  grpc::Status Start(grpc::ServerContext* context, const control::StartRequest* request,
                     control::StartReply* reply) override;
  grpc::Status Heartbeat(grpc::ServerContext* context, const control::HeartbeatRequest* request,
                         control::HeartbeatReply* reply) override;
  grpc::Status Leave(grpc::ServerContext* context, const control::LeaveRequest* request,
                     control::LeaveReply* reply) override;
  grpc::Status Snapshot(grpc::ServerContext* context, const control::SnapshotRequest* request,
                        control::TakeReply* reply) override;

 private:
  Status join(const grpc::ServerContext* context, const control::JoinRequest& request,
              control::JoinReply& reply);
  // Whose job it is, or the ticket that says so.
  Status admit(const grpc::ServerContext* context, const control::JoinRequest& request,
               JoinArguments& arguments);
  Status ready(const control::ReadyRequest& request);
  Status start(grpc::ServerContext& context, const control::StartRequest& request,
               control::StartReply& reply);
  Status heartbeat(const control::HeartbeatRequest& request, control::HeartbeatReply& reply);
  Status leave(const control::LeaveRequest& request);
  // The job of a member. Errors: kNotFound, kPermissionDenied: the caller is none.
  Result<JobView> job_of(const control::SnapshotRequest& request);
  Status snapshot(const grpc::ServerContext& context, const JobView& job,
                  const control::SnapshotRequest& request, control::TakeReply& reply);
  // Whether a refusal of a member is audited: one a second, after a few at once, so that a worker
  // which asks for ever pushes nobody else's acts out of the log.
  bool audits_refusal();

  JobTable& table_;
  const Offer offer_;
  Snapshotter* const snapshotter_;
  const Gate gate_;
  std::mutex refusals_mutex_;
  TokenBucket refusals_{1.0, 16.0, TokenBucket::Clock::now()};
};

}  // namespace phub::server

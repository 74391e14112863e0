// The gRPC service Snapshots: takes, lists, restores and deletes snapshots of jobs.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include "proto/control.grpc.pb.h"
#include "server/jobs/table.h"
#include "server/process/control_threads.h"
#include "server/rpc/authorizer.h"
#include "server/rpc/calls.h"
#include "server/rpc/take.h"
#include "server/snapshot/snapshotter.h"

namespace phub::server {

// Take waits for a round of its job without a thread (take.h).
class SnapshotService final : public control::Snapshots::CallbackService {
 public:
  // `snapshotter` null: the server has no state folder, and says so. `threads` outlives the calls.
  SnapshotService(JobTable& table, Snapshotter* snapshotter, Tenancy* tenancy,
                  const ControlPeers& peers, CallThreads& threads)
      : table_(table),
        snapshotter_(snapshotter),
        tenancy_(tenancy),
        authorizer_(tenancy, peers),
        threads_(threads),
        calls_(authorizer_, threads) {}

  grpc::ServerUnaryReactor* Take(grpc::CallbackServerContext* context,
                                 const control::TakeRequest* request,
                                 control::TakeReply* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const control::ListSnapshotsRequest* request,
                                 control::ListSnapshotsReply* reply) override {
    return calls_.run(context, {Right::kRead}, *this, &SnapshotService::list, request, reply);
  }
  grpc::ServerUnaryReactor* Restore(grpc::CallbackServerContext* context,
                                    const control::RestoreRequest* request,
                                    control::RestoreReply* reply) override {
    return calls_.run(context, {Right::kChangeJobs, "snapshot restore"}, *this,
                      &SnapshotService::restore, request, reply);
  }
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const control::DeleteSnapshotRequest* request,
                                   control::DeleteSnapshotReply* reply) override {
    return calls_.run(context, {Right::kChangeJobs, "snapshot delete"}, *this,
                      &SnapshotService::remove, request, reply);
  }

 private:
  Status list(Call& call, const control::ListSnapshotsRequest& request,
              control::ListSnapshotsReply& reply);
  Status restore(Call& call, const control::RestoreRequest& request, control::RestoreReply& reply);
  Status remove(Call& call, const control::DeleteSnapshotRequest& request,
                control::DeleteSnapshotReply& reply);
  void admit_take(grpc::CallbackServerContext& context, const control::TakeRequest& request,
                  control::TakeReply& reply, grpc::ServerUnaryReactor& reactor);
  Result<std::string> tenant_of(const SnapshotHead& head, std::optional<std::uint32_t> owner,
                                const std::string& file) const;

  JobTable& table_;
  Snapshotter* const snapshotter_;
  Tenancy* const tenancy_;
  const Authorizer authorizer_;
  CallThreads& threads_;
  const Calls calls_;
};

}  // namespace phub::server

// The gRPC service Snapshots: takes, lists and restores snapshots of jobs.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include "proto/control.grpc.pb.h"
#include "server/control_service_gate.h"
#include "server/job_table.h"
#include "server/snapshot/snapshotter.h"

namespace phub::server {

// Which moment of a job is wanted, and by whom.
struct WantedSnapshot {
  std::uint64_t round = 0;       // when it is over; 0: as soon as possible
  std::uint32_t timeout_ms = 0;  // how long to wait for it; 0: 30 s
  Asker asked_by = Asker::kAdministrator;
  const grpc::ServerContext* call = nullptr;  // is given up when its caller is not there any more
};

// What both Snapshots.Take and a member of the job ask for. `snapshotter` as below.
Status take_snapshot(JobTable& table, Snapshotter* snapshotter, const JobView& job,
                     const WantedSnapshot& wanted, control::TakeReply& reply);

class SnapshotService final : public control::Snapshots::Service {
 public:
  // `snapshotter` null: the server has no state folder, and says so.
  SnapshotService(JobTable& table, Snapshotter* snapshotter, Tenancy* tenancy)
      : table_(table), snapshotter_(snapshotter), tenancy_(tenancy), gate_(tenancy) {}

  grpc::Status Take(grpc::ServerContext* context, const control::TakeRequest* request,
                    control::TakeReply* reply) override;
  grpc::Status List(grpc::ServerContext* context, const control::ListSnapshotsRequest* request,
                    control::ListSnapshotsReply* reply) override;
  grpc::Status Restore(grpc::ServerContext* context, const control::RestoreRequest* request,
                       control::RestoreReply* reply) override;

 private:
  Status take(const JobName& name, const WantedSnapshot& wanted, control::TakeReply& reply);
  Status restore(const Principal& caller, const control::RestoreRequest& request,
                 control::RestoreReply& reply);

  Result<std::string> tenant_of(const SnapshotHead& head, std::optional<std::uint32_t> owner,
                                const std::string& file) const;

  JobTable& table_;
  Snapshotter* const snapshotter_;
  Tenancy* const tenancy_;
  const Gate gate_;
};

}  // namespace phub::server

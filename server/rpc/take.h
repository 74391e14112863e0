// The snapshot that a call asks for, taken in steps between which it needs no thread.
#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "proto/control.pb.h"
#include "server/job/rack_links.h"
#include "server/jobs/table.h"
#include "server/process/control_threads.h"
#include "server/snapshot/snapshotter.h"

namespace phub::server {

// Which moment of a job is wanted, and by whom.
struct WantedSnapshot {
  std::uint64_t round = 0;       // when it is over; 0: as soon as possible
  std::uint32_t timeout_ms = 0;  // how long to wait for it; 0: 30 s
  Asker asked_by = Asker::kAdministrator;
  const grpc::ServerContextBase* call =
      nullptr;  // is given up when its caller is not there any more
  // Of a job that spans racks: the other racks' servers keep it too. Null: this one alone.
  RackLinks* links = nullptr;
};

// The server has no state folder.
Status no_snapshots();

void fill(const SnapshotInfo& info, control::SnapshotInfo& message);

class SnapshotCall {
 public:
  using FindJob = std::function<Result<JobView>()>;
  using End = std::function<void(const Status&)>;

  // `snapshotter` null: the server keeps no state, and says so. `find` is asked at the first step.
  // `end` is called once, with the outcome, when nothing of it is held any more. All outlive the
  // call.
  SnapshotCall(JobTable& table, Snapshotter* snapshotter, const WantedSnapshot& wanted,
               control::TakeReply& reply, FindJob find, End end)
      : table_(table),
        snapshotter_(snapshotter),
        wanted_(wanted),
        reply_(reply),
        find_(std::move(find)),
        end_(std::move(end)) {}

  // A step of a WorkQueue.
  std::optional<std::chrono::microseconds> step();

 private:
  Status begin();
  Result<bool> go_on();      // whether it is over
  Result<bool> end_there();  // whether the other racks have theirs

  JobTable& table_;
  Snapshotter* const snapshotter_;
  const WantedSnapshot wanted_;
  control::TakeReply& reply_;
  const FindJob find_;
  const End end_;
  std::uint64_t job_id_ = 0;  // 0: not known yet
  AdmittedCopy admitted_;
  std::unique_ptr<SnapshotUnderWay> taking_;  // since the first step, until it is written
  std::unique_ptr<RackSnapshots> others_;     // other racks'; null: none is asked
};

// Errors: kResourceExhausted: the tenant has too many under way; `call` is then dropped.
Status post(CallThreads& threads, const std::string& tenant, std::shared_ptr<SnapshotCall> call);

}  // namespace phub::server

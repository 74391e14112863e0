// Takes snapshots: copies a running job and writes the copy down.
//
// Owned by the daemon; any control thread, which it blocks until the job's round is over.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "server/data_plane.h"
#include "server/job_spec.h"
#include "server/snapshot/snapshot_store.h"

namespace phub::server {

// Which job is to be copied, and when.
struct SnapshotOrder {
  std::uint64_t job_id = 0;
  std::string label;  // names the job in messages
  std::shared_ptr<const JobSpec> spec;
  Tenant tenant;
  std::shared_ptr<const Plan> plan = {};  // null: the job has none yet, and copying it fails
  std::uint32_t server_index = 0;
  CopyMoment moment = {};
  Asker asked_by = Asker::kAdministrator;
};

struct TakenSnapshot {
  SnapshotInfo info;
  double pause_seconds = 0;  // that the busiest core spent on copying: what the job felt of it
  double seconds = 0;        // all in all
};

class Snapshotter {
 public:
  // Both outlive this.
  Snapshotter(DataPlane& data_plane, SnapshotStore& store)
      : data_plane_(data_plane), store_(store) {}

  // Room on the disk is admitted, and what could not be read back is refused, before anything is
  // copied. Errors: those of snapshot_bytes, SnapshotStore::admit, DataPlane::copy_job and
  // SnapshotStore::write.
  Result<TakenSnapshot> take(const SnapshotOrder& order);

  SnapshotStore& store() const { return store_; }

 private:
  Result<SnapshotStore::Room> admit(const SnapshotOrder& order);

  DataPlane& data_plane_;
  SnapshotStore& store_;
};

}  // namespace phub::server

// Takes snapshots: copies a running job and writes the copy down.
//
// Owned by the daemon; any control thread, which it blocks until the job's round is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "server/data_plane.h"
#include "server/job_spec.h"
#include "server/snapshot/snapshot_store.h"

namespace phub::server {

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

  // `label` names the job in messages. Errors: those of DataPlane::copy_job and
  // SnapshotStore::write.
  Result<TakenSnapshot> take(std::uint64_t job_id, const std::string& label, const JobSpec& spec,
                             const CopyMoment& moment, Asker asked_by);

  const SnapshotStore& store() const { return store_; }

 private:
  DataPlane& data_plane_;
  SnapshotStore& store_;
};

}  // namespace phub::server

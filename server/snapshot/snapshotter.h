// Takes snapshots: copies a running job and writes the copy down.
//
// The Snapshotter is owned by the daemon; any control thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/job/spec.h"
#include "server/plane/data_plane.h"
#include "server/snapshot/store.h"

namespace phub::server {

// Which job is to be copied, and when.
struct SnapshotOrder {
  std::uint64_t job_id = 0;
  std::string label;  // names the job in messages
  std::shared_ptr<const JobSpec> spec;
  // What its rounds use of its samples, when the copy is whole; empty: that is not known.
  std::function<SampleLedger()> samples = {};
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

// A snapshot that is being taken, in steps: between them, while the job's round is not over, it
// needs no thread. Gone before it is over: given up. One thread at a time.
class SnapshotUnderWay {
 public:
  // Both outlive this. Nothing is done before the first step.
  SnapshotUnderWay(DataPlane& data_plane, SnapshotStore& store, SnapshotOrder order)
      : data_plane_(data_plane), store_(store), order_(std::move(order)) {}

  // Nothing: it goes on, and the next step is due after rest(). Room on the disk is admitted, and
  // what could not be read back is refused, before anything is copied. The last step writes the
  // file. Errors: those of snapshot_bytes, SnapshotStore::admit, CopyUnderWay::step and
  // SnapshotStore::write.
  Result<std::optional<TakenSnapshot>> step();
  std::chrono::microseconds rest() const { return copying_->rest(); }

 private:
  Result<SnapshotStore::Room> admit() const;
  Result<TakenSnapshot> write(const CopiedJob& copied) const;

  DataPlane& data_plane_;
  SnapshotStore& store_;
  const SnapshotOrder order_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  SnapshotStore::Room room_;
  std::unique_ptr<CopyUnderWay> copying_;  // since the first step, until the copy is whole
};

class Snapshotter {
 public:
  // Both outlive this.
  Snapshotter(DataPlane& data_plane, SnapshotStore& store)
      : data_plane_(data_plane), store_(store) {}

  std::unique_ptr<SnapshotUnderWay> begin(SnapshotOrder order) {
    return std::make_unique<SnapshotUnderWay>(data_plane_, store_, std::move(order));
  }
  // All steps of one, on the caller's thread.
  Result<TakenSnapshot> take(const SnapshotOrder& order);

  SnapshotStore& store() const { return store_; }

 private:
  DataPlane& data_plane_;
  SnapshotStore& store_;
};

}  // namespace phub::server

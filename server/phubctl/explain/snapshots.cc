#include "server/phubctl/explain/snapshots.h"

#include <fmt/format.h>

#include "common/text/table.h"

namespace phub::phubctl {

std::optional<Reason> snapshots_failed(const control::JobInfo& job) {
  const control::SnapshotStatistics& snapshots = job.statistics().snapshots();
  if (snapshots.failed() == 0) return {};
  return Reason{
      .topic = "snapshots fail",
      .what = fmt::format("Of {} snapshots {} failed, and training went on without them; the last "
                          "failure: {}.",
                          human_count(snapshots.taken() + snapshots.failed()),
                          human_count(snapshots.failed()), snapshots.last_failure()),
      .cure =
          "do what the failure says; `phubctl snapshots` lists what is there, `phubctl snapshot "
          "delete FILE` makes room, and the server's snapshots_expire_s deletes those of jobs that "
          "are over"};
}

}  // namespace phub::phubctl

#include "server/snapshot/snapshotter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "common/base/log_value.h"

namespace phub::server {

Result<SnapshotStore::Room> Snapshotter::admit(const SnapshotOrder& order) {
  if (order.plan == nullptr) return SnapshotStore::Room();
  const SnapshotHead head{.spec = *order.spec,
                          .tenant = order.tenant.name,
                          .created = "2000-01-01T00:00:00Z",  // as long as any
                          .sha256 = {}};
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                        snapshot_bytes(head, *order.plan, order.server_index));
  return store_.admit(order.tenant, bytes);
}

Result<TakenSnapshot> Snapshotter::take(const SnapshotOrder& order) {
  const auto start = std::chrono::steady_clock::now();
  const Result<SnapshotStore::Room> room = admit(order);
  if (!room) return room.error().with_context(fmt::format("job \"{}\"", order.label));
  const Result<CopiedJob> copied = data_plane_.copy_job(order.job_id, order.moment);
  if (!copied) return copied.error().with_context(fmt::format("job \"{}\"", order.label));
  TakenSnapshot taken{.info = {}, .pause_seconds = copied->pause_seconds};
  PHUB_ASSIGN_OR_RETURN(taken.info, store_.write(*order.spec, *copied, order.asked_by));
  taken.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  spdlog::info("event=snapshot job={} id={} round={} bytes={} pause_ms={:.1f} file={}",
               log_value(order.label), order.job_id, taken.info.round, taken.info.bytes,
               taken.pause_seconds * 1e3, log_value(taken.info.file));
  return taken;
}

}  // namespace phub::server

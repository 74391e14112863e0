#include "server/snapshot/snapshotter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>
#include <utility>

#include "common/base/log_value.h"

namespace phub::server {

Result<SnapshotStore::Room> SnapshotUnderWay::admit() const {
  if (order_.plan == nullptr) return SnapshotStore::Room();
  const SnapshotHead head{.spec = *order_.spec,
                          .tenant = order_.tenant.name,
                          .created = "2000-01-01T00:00:00Z",  // as long as any
                          .sha256 = {}};
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                        snapshot_bytes(head, *order_.plan, order_.server_index));
  return store_.admit(order_.tenant, bytes);
}

Result<std::optional<TakenSnapshot>> SnapshotUnderWay::step() {
  const std::string what = fmt::format("job \"{}\"", order_.label);
  if (copying_ == nullptr) {
    Result<SnapshotStore::Room> room = admit();
    if (!room) return room.error().with_context(what);
    room_ = std::move(*room);
    copying_ = data_plane_.copy_job(order_.job_id, order_.moment);
  }
  const Result<std::optional<CopiedJob>> copied = copying_->step();
  if (!copied) return copied.error().with_context(what);
  if (!*copied) return std::optional<TakenSnapshot>();
  copying_.reset();  // the next one's turn
  PHUB_ASSIGN_OR_RETURN(TakenSnapshot taken, write(**copied));
  return std::optional<TakenSnapshot>(std::move(taken));
}

Result<TakenSnapshot> SnapshotUnderWay::write(const CopiedJob& copied) const {
  TakenSnapshot taken{.info = {}, .pause_seconds = copied.pause_seconds};
  const SampleLedger samples = order_.samples ? order_.samples() : SampleLedger();
  PHUB_ASSIGN_OR_RETURN(taken.info, store_.write(*order_.spec, copied, order_.asked_by, samples));
  taken.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  spdlog::info("event=snapshot job={} id={} round={} bytes={} pause_ms={:.1f} file={}",
               log_value(order_.label), order_.job_id, taken.info.round, taken.info.bytes,
               taken.pause_seconds * 1e3, log_value(taken.info.file));
  return taken;
}

Result<TakenSnapshot> Snapshotter::take(const SnapshotOrder& order) {
  SnapshotUnderWay taking(data_plane_, store_, order);
  while (true) {
    PHUB_ASSIGN_OR_RETURN(std::optional<TakenSnapshot> taken, taking.step());
    if (taken) return std::move(*taken);
    std::this_thread::sleep_for(taking.rest());
  }
}

}  // namespace phub::server

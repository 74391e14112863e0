#include "server/snapshot/snapshotter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace phub::server {

Result<TakenSnapshot> Snapshotter::take(std::uint64_t job_id, const std::string& label,
                                        const JobSpec& spec, const CopyMoment& moment,
                                        Asker asked_by) {
  const auto start = std::chrono::steady_clock::now();
  const Result<CopiedJob> copied = data_plane_.copy_job(job_id, moment);
  if (!copied) return copied.error().with_context(fmt::format("job \"{}\"", label));
  TakenSnapshot taken{.info = {}, .pause_seconds = copied->pause_seconds};
  PHUB_ASSIGN_OR_RETURN(taken.info, store_.write(spec, *copied, asked_by));
  taken.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  spdlog::info("event=snapshot job=\"{}\" id={} round={} bytes={} pause_ms={:.1f} file=\"{}\"",
               label, job_id, taken.info.round, taken.info.bytes, taken.pause_seconds * 1e3,
               taken.info.file);
  return taken;
}

}  // namespace phub::server

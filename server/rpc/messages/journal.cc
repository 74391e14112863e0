#include "server/rpc/messages/journal.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/base/log_value.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {

Status StoredJobs::created(const SavedJob& job) {
  control::JobSpec message;
  fill(job.spec, Keys::kIncluded, message);
  return store_.add_job({.id = job.id,
                         .epoch = job.epoch,
                         .tenant_id = job.tenant_id,
                         .spec = message.SerializeAsString(),
                         .nonce_hash = job.nonce_hash,
                         .snapshot = job.snapshot});
}

Status StoredJobs::ended(std::uint64_t job_id) { return store_.remove_job(job_id); }

Result<std::uint64_t> StoredJobs::reserve_ids(std::uint64_t count) {
  return store_.reserve_job_ids(count);
}

Result<std::vector<SavedJob>> StoredJobs::take() {
  PHUB_ASSIGN_OR_RETURN(std::vector<StoredJob> stored, store_.take_jobs());
  std::vector<SavedJob> jobs;
  for (StoredJob& job : stored) {
    control::JobSpec message;
    Result<JobSpec> spec = Status(Code::kDataLoss, "its spec does not parse");
    if (message.ParseFromString(job.spec)) spec = spec_from(message);
    const Status valid = spec ? validate(*spec) : spec.error();
    if (!valid.ok()) {
      spdlog::warn("event=job_not_restored id={} reason={}", job.id, log_value(valid.message()));
      continue;
    }
    jobs.push_back({.id = job.id,
                    .epoch = job.epoch,
                    .tenant_id = job.tenant_id,
                    .tenant = std::move(job.tenant),
                    .spec = std::move(*spec),
                    .nonce_hash = job.nonce_hash,
                    .snapshot = std::move(job.snapshot)});
  }
  return jobs;
}

}  // namespace phub::server

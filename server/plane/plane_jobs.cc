#include "server/plane/plane_jobs.h"

namespace phub::server {

Status PlaneJobs::create(const JobLayout& layout, const PlaneJob::Executor& pool) {
  if (layout.workers == 0 || layout.workers > kMaxWorkers) {
    return {Code::kInvalidArgument, "workers: " + std::to_string(layout.workers) +
                                        " is not between 1 and " + std::to_string(kMaxWorkers)};
  }
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.contains(layout.job_id) || creating_.contains(layout.job_id)) {
      return {Code::kAlreadyExists, "job " + std::to_string(layout.job_id) + " exists"};
    }
    const std::uint64_t bytes = bytes_pinned(layout, offered_);
    PHUB_RETURN_IF_ERROR(admit(bytes, room()));
    creating_.emplace(layout.job_id, bytes);
  }
  auto job = PlaneJob::create(layout, cores_, pool);
  const std::lock_guard lock(mutex_);
  creating_.erase(layout.job_id);
  if (!job) return job.error();
  jobs_.emplace(layout.job_id, std::move(*job));
  return {};
}

PlaneJobs::Pointer PlaneJobs::extract(std::uint64_t job_id) {
  const std::lock_guard lock(mutex_);
  const auto node = jobs_.extract(job_id);
  return node ? node.mapped() : nullptr;
}

PlaneJobs::Pointer PlaneJobs::find(std::uint64_t job_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? nullptr : found->second;
}

Room PlaneJobs::room() const {
  Room room{.limit_bytes = limit_bytes_,
            .available_bytes = available_bytes(!cores_.ports().empty())};
  for (const auto& [id, bytes] : creating_) {
    room.admitted_bytes += bytes;
    room.untouched_bytes += bytes;
  }
  for (const auto& [id, job] : jobs_) job->add_to(room, offered_);
  for (const auto& reserved : reserved_) {
    if (const auto bytes = reserved.lock()) room.admitted_bytes += *bytes;  // touched at once
  }
  return room;
}

Result<std::shared_ptr<const std::uint64_t>> PlaneJobs::reserve(std::uint64_t bytes,
                                                                const std::string& what) {
  const std::lock_guard lock(mutex_);
  PHUB_RETURN_IF_ERROR(admit(bytes, room(), what));
  std::erase_if(reserved_, [](const auto& reserved) { return reserved.expired(); });
  auto counted = std::make_shared<const std::uint64_t>(bytes);
  reserved_.push_back(counted);
  return counted;
}

StagedBeyond PlaneJobs::staged_beyond() const {
  StagedBeyond all;
  for_each([&](const PlaneJob& job) {
    const std::uint64_t bytes = job.staged_beyond(offered_);
    if (bytes > 0) all[job.layout().job_id] = bytes;
  });
  return all;
}

}  // namespace phub::server

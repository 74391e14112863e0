// Copies of running jobs.
#include <algorithm>
#include <thread>

#include "server/job_copying.h"
#include "server/pinned_data_plane.h"

namespace phub::server {
namespace {

Status nobody_waits() { return {Code::kAborted, "whoever asked for the snapshot has gone away"}; }

}  // namespace

// Jobs are copied beside each other: one that stands still must not hold up another tenant's.
Result<CopiedJob> PinnedDataPlane::copy_job(std::uint64_t job_id, const CopyMoment& moment) {
  const auto deadline = std::chrono::steady_clock::now() + moment.timeout;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (copying_.insert(job_id).second) break;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(Code::kDeadlineExceeded, "another snapshot of it is still under way");
    }
    if (moment.is_cancelled()) return nobody_waits();
    std::this_thread::sleep_for(JobCopying::kRest);
  }
  CopyMoment rest = moment;
  rest.timeout =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  Result<CopiedJob> copied = copy_alone(job_id, rest);
  const std::lock_guard lock(mutex_);
  copying_.erase(job_id);
  return copied;
}

// REQUIRES: the job is in copying_.
Result<CopiedJob> PinnedDataPlane::copy_alone(std::uint64_t job_id, const CopyMoment& moment) {
  std::unique_ptr<JobCopying> copying;
  std::shared_ptr<const std::uint64_t> counted;
  while (true) {
    const bool was_cancelled = moment.is_cancelled();
    std::optional<JobShape> shape;
    {
      const std::lock_guard lock(mutex_);
      const auto found = jobs_.find(job_id);
      if (found == jobs_.end()) return Status(Code::kNotFound, "it is not running here");
      if (was_cancelled) {
        if (copying) copying->end(cores_, found->second->shards);
        return nobody_waits();
      }
      if (copying) {
        PHUB_ASSIGN_OR_RETURN(const bool done, copying->step(cores_, found->second->shards));
        if (done) {
          CopiedJob copied = copying->result();
          copied.counted_bytes = std::move(counted);
          return copied;
        }
      } else {
        shape = found->second->shape;
        PHUB_ASSIGN_OR_RETURN(counted, count_copy(*shape));
      }
    }
    if (shape) {
      PHUB_ASSIGN_OR_RETURN(copying, JobCopying::create(*shape, moment.round, moment.timeout));
    } else {
      std::this_thread::sleep_for(JobCopying::kRest);  // in which others may have the mutex
    }
  }
}

Result<std::shared_ptr<const std::uint64_t>> PinnedDataPlane::count_copy(const JobShape& shape) {
  auto bytes = std::make_shared<const std::uint64_t>(bytes_copied(shape));
  PHUB_RETURN_IF_ERROR(server::admit(*bytes, room(), "the snapshot"));
  std::erase_if(copies_, [](const auto& copy) { return copy.expired(); });
  copies_.push_back(bytes);
  return bytes;
}

}  // namespace phub::server

// Copies of running jobs.
#include <algorithm>
#include <chrono>

#include "server/plane/job_copying.h"
#include "server/plane/pinned_data_plane.h"

namespace phub::server {

// Jobs are copied beside each other: one that stands still must not hold up another tenant's.
class PinnedDataPlane::Copy final : public CopyUnderWay {
 public:
  Copy(PinnedDataPlane& plane, std::uint64_t job_id, const CopyMoment& moment)
      : plane_(plane),
        job_id_(job_id),
        moment_(moment),
        deadline_(std::chrono::steady_clock::now() + moment.timeout) {}

  ~Copy() override {
    if (!is_queued_) return;
    const std::lock_guard lock(plane_.mutex_);
    const auto found = plane_.jobs_.find(job_id_);
    if (making_ && found != plane_.jobs_.end())
      making_->end(plane_.cores_, found->second->on_cores);
    const auto queue = plane_.copying_.find(job_id_);
    std::erase(queue->second, this);
    if (queue->second.empty()) plane_.copying_.erase(queue);
  }

  Result<std::optional<CopiedJob>> step() override {
    if (moment_.is_cancelled()) {
      return Status(Code::kAborted, "whoever asked for the snapshot has gone away");
    }
    JobLayout shape;
    {
      const std::lock_guard lock(plane_.mutex_);
      if (!has_turn()) return wait_for_turn();
      const auto found = plane_.jobs_.find(job_id_);
      if (found == plane_.jobs_.end()) return Status(Code::kNotFound, "it is not running here");
      if (making_) return go_on(found->second->on_cores);
      shape = found->second->shape;
      PHUB_ASSIGN_OR_RETURN(counted_, plane_.count(bytes_copied(shape), "the snapshot"));
    }
    PHUB_ASSIGN_OR_RETURN(making_, JobCopying::create(shape, moment_.round, time_left()));
    return std::optional<CopiedJob>();
  }

  std::chrono::microseconds rest() const override {
    return making_ ? making_->rest() : JobCopying::kRestMax;
  }

 private:
  std::chrono::milliseconds time_left() const {
    return std::chrono::ceil<std::chrono::milliseconds>(deadline_ -
                                                        std::chrono::steady_clock::now());
  }

  // REQUIRES: the data plane's mutex.
  bool has_turn() {
    std::deque<const Copy*>& queue = plane_.copying_[job_id_];
    if (!is_queued_) queue.push_back(this);
    is_queued_ = true;
    return queue.front() == this;
  }

  Result<std::optional<CopiedJob>> wait_for_turn() const {
    if (time_left().count() > 0) return std::optional<CopiedJob>();
    return Status(Code::kDeadlineExceeded, "another snapshot of it is still under way");
  }

  // REQUIRES: the data plane's mutex.
  Result<std::optional<CopiedJob>> go_on(const std::vector<std::unique_ptr<JobOnCore>>& on_cores) {
    PHUB_ASSIGN_OR_RETURN(const bool is_whole, making_->step(plane_.cores_, on_cores));
    if (!is_whole) return std::optional<CopiedJob>();
    CopiedJob copied = making_->result();
    copied.counted_bytes = std::move(counted_);
    return std::optional<CopiedJob>(std::move(copied));
  }

  PinnedDataPlane& plane_;
  const std::uint64_t job_id_;
  const CopyMoment moment_;
  const std::chrono::steady_clock::time_point deadline_;
  bool is_queued_ = false;  // in copying_
  std::shared_ptr<const std::uint64_t> counted_;
  std::unique_ptr<JobCopying> making_;
};

std::unique_ptr<CopyUnderWay> PinnedDataPlane::copy_job(std::uint64_t job_id,
                                                        const CopyMoment& moment) {
  return std::make_unique<Copy>(*this, job_id, moment);
}

Result<std::shared_ptr<const std::uint64_t>> PinnedDataPlane::count(std::uint64_t bytes,
                                                                    const std::string& what) {
  PHUB_RETURN_IF_ERROR(server::admit(bytes, room(), what));
  std::erase_if(reserved_, [](const auto& reserved) { return reserved.expired(); });
  auto counted = std::make_shared<const std::uint64_t>(bytes);
  reserved_.push_back(counted);
  return counted;
}

Result<std::shared_ptr<const void>> PinnedDataPlane::reserve(std::uint64_t bytes,
                                                             const std::string& what) {
  const std::lock_guard lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(std::shared_ptr<const void> counted, count(bytes, what));
  return counted;
}

}  // namespace phub::server

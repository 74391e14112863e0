// Takes a consistent copy of a running job, in steps between which the job and its server go on.
//
// Every chunk is copied when the same number of rounds is behind it, by its own core: as it
// completes that round, before its next update, or, if it rests there, a few at a time.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "server/plane/plane_jobs.h"

namespace phub::server {

// By job, the copies of it that are asked for, in order: a shard makes one at a time. Jobs are
// copied beside each other: one that stands still must not hold up another tenant's. Any thread.
class CopyQueue {
 public:
  // True: it is the copy's turn. The first call enters the queue.
  bool has_turn(std::uint64_t job_id, const CopyUnderWay& copy);
  void leave(std::uint64_t job_id, const CopyUnderWay& copy);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::deque<const CopyUnderWay*>> copies_;
};

class JobCopying final : public CopyUnderWay {
 public:
  JobCopying(PlaneJobs& jobs, const Cores& cores, CopyQueue& queue, std::uint64_t job_id,
             const CopyMoment& moment)
      : jobs_(jobs),
        cores_(cores),
        queue_(queue),
        job_id_(job_id),
        moment_(moment),
        deadline_(std::chrono::steady_clock::now() + moment.timeout) {}
  ~JobCopying() override;

  Result<std::optional<CopiedJob>> step() override;
  // Longer and longer while nothing comes of the steps, as when the round is far off.
  std::chrono::microseconds rest() const override { return rest_; }

 private:
  static constexpr std::chrono::microseconds kRestMin{500};
  static constexpr std::chrono::microseconds kRestMax{20'000};

  bool is_late() const { return std::chrono::steady_clock::now() >= deadline_; }
  // Allocates and touches the copy's memory.
  Status prepare();
  // These REQUIRE that the job stays, and that `on_cores` are its.
  Result<bool> copy_some(const JobOnCores& on_cores);  // true: the copy is whole
  Result<bool> begin(const JobOnCores& on_cores);
  void end(const JobOnCores& on_cores) const;

  PlaneJobs& jobs_;
  const Cores& cores_;
  CopyQueue& queue_;
  const std::uint64_t job_id_;
  const CopyMoment moment_;
  const std::chrono::steady_clock::time_point deadline_;
  CopiedJob result_;               // as far as it is known
  std::shared_ptr<JobCopy> copy_;  // null: not prepared; its memory goes before it is not counted
  bool begun_ = false;
  std::chrono::microseconds rest_ = kRestMax;
  std::uint32_t left_ = 0;    // chunks, after the last step
  std::uint64_t margin_ = 0;  // rounds beyond the furthest chunk; 0: where it is now
  std::uint64_t pause_ticks_ = 0;
};

}  // namespace phub::server

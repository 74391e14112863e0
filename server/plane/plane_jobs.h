// The jobs of a data plane, and what of the machine's memory they may take: together with what is
// made beside them never more than there is.
//
// Any control thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/plane/plane_job.h"

namespace phub::server {

class PlaneJobs {
 public:
  using Pointer = std::shared_ptr<PlaneJob>;

  // `limit_bytes` 0: none. The cores outlive it.
  PlaneJobs(const CoreSet& cores, const Offered& offered, std::uint64_t limit_bytes)
      : cores_(cores), offered_(offered), limit_bytes_(limit_bytes) {}

  // Allocates one. Errors: kResourceExhausted with the figures; kAlreadyExists.
  Status create(const JobLayout& layout, const PlaneJob::Executor& pool);
  // Takes it out of the table; null: it is not here.
  Pointer extract(std::uint64_t job_id);
  // Null: it is not here.
  Pointer find(std::uint64_t job_id) const;
  // Calls `look` with the job, which stays meanwhile; false: it is not here. For a look or a task
  // of a core, never while memory is copied, pinned or unmapped.
  template <typename Look>
  bool with(std::uint64_t job_id, Look look) const {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(job_id);
    if (found == jobs_.end()) return false;
    look(*found->second);
    return true;
  }
  template <typename Look>
  void for_each(Look look) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, job] : jobs_) look(*job);
  }

  // Counts bytes that are about to be taken until the result is gone. `what`: that wants them.
  // Errors: kResourceExhausted with the figures.
  Result<std::shared_ptr<const std::uint64_t>> reserve(std::uint64_t bytes,
                                                       const std::string& what);
  // Of jobs that have more of tcp's pushes in memory than was admitted.
  StagedBeyond staged_beyond() const;

 private:
  Room room() const;  // REQUIRES: mutex_

  const CoreSet& cores_;
  const Offered offered_;
  const std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;  // of the tables
  std::map<std::uint64_t, Pointer> jobs_;
  std::map<std::uint64_t, std::uint64_t> creating_;  // bytes of jobs that are being made
  std::vector<std::weak_ptr<const std::uint64_t>> reserved_;
};

}  // namespace phub::server

// What of the jobs outlives the process: ids that are never given twice, and the jobs that
// administrators made, from their creation until they end or are closed.
//
// Owned by the JobTable. All calls REQUIRE its mutex, which those with a Lock give up while the
// store writes.
#pragma once

#include <cstdint>
#include <vector>

#include "server/jobs/job_index.h"

namespace phub::server {

class SavedJobs {
 public:
  explicit SavedJobs(JobIndex& index) : index_(index), store_(index.options.store) {}

  Result<std::uint64_t> take_id();
  // Ids for the next jobs, so that take_id need not write.
  void stock_ids(JobIndex::Lock& lock);

  // Without a store there is nothing to do. Errors: the store's.
  Status save(JobIndex::Lock& lock, Job& job);
  Status forget(JobIndex::Lock& lock, Job& job);

  // The store is told by the next tell_ends. What could not be written, as on a full disk, is tried
  // again by the one after.
  void note_end(const Job& job);
  void tell_ends(JobIndex::Lock& lock);
  bool has_ends() const { return !ends_.empty(); }

 private:
  JobIndex& index_;
  const JobStore& store_;
  std::uint64_t next_id_ = 1;
  std::uint64_t ids_end_ = 1;        // from next_id_ up to here are this process's to give
  std::vector<std::uint64_t> ends_;  // jobs that the store has to forget
  std::vector<std::uint64_t> late_;  // those of them that it could not
};

}  // namespace phub::server

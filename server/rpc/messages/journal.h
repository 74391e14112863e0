// The job table's journal in the store: specs as serialised messages of control.proto.
//
// Owned by the daemon; any control thread.
#pragma once

#include <vector>

#include "server/jobs/journal.h"
#include "server/state/store.h"

namespace phub::server {

class StoredJobs final : public JobStore {
 public:
  explicit StoredJobs(Store& store) : store_(store) {}

  Status created(const SavedJob& job) override;
  Status ended(std::uint64_t job_id) override;
  Result<std::uint64_t> reserve_ids(std::uint64_t count) override;

  // Those of earlier processes, each in a new epoch. One that cannot be read is logged and left
  // out.
  Result<std::vector<SavedJob>> take();

 private:
  Store& store_;
};

}  // namespace phub::server

// Where what must outlive the process is written: the jobs that administrators made, and which ids
// were given out.
//
// Made by the daemon; called by any control thread, without the job table's mutex.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/status.h"
#include "server/state/store.h"

namespace phub::server {

// Without functions nothing outlives the process.
struct JobStore {
  // An error says why nothing was written; the job must not exist then.
  std::function<Status(const StoredJob& job)> add = {};
  // When this is OK the job does not come back. Once more is harmless.
  std::function<Status(std::uint64_t job_id)> remove = {};
  // The first of `count` ids that no job has ever had.
  std::function<Result<std::uint64_t>(std::uint64_t count)> reserve_ids = {};

  bool is_there() const { return add != nullptr; }
};

}  // namespace phub::server

// What of the job table must outlive the process: the jobs that administrators made, and which ids
// were given out.
//
// Owned by the daemon, called by the job table's callers: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "server/job/spec.h"
#include "server/tenants/secret.h"

namespace phub::server {

struct SavedJob {
  std::uint64_t id = 0;
  std::uint32_t epoch = 1;
  std::uint32_t tenant_id = 0;
  std::string tenant;
  JobSpec spec;
  std::optional<Digest> nonce_hash = {};  // of the nonce that lets a worker join it
  std::string snapshot = {};              // that it starts from; empty: none
};

class JobStore {
 public:
  virtual ~JobStore() = default;
  // An error says why nothing was written; the job must not exist then.
  virtual Status created(const SavedJob& job) = 0;
  // It ended by itself or was closed: when this is OK it does not come back. Once more is harmless.
  virtual Status ended(std::uint64_t job_id) = 0;
  // The first of `count` ids that no job has ever had.
  virtual Result<std::uint64_t> reserve_ids(std::uint64_t count) = 0;
};

}  // namespace phub::server

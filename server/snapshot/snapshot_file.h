// A job's snapshot as a safetensors file: a tensor "KEY" of parameters and "KEY.state" of optimizer
// state for each key, fp32, and the job in the metadata.
//
// A server that holds only a part of a key writes "KEY[FROM:TO]" for each run of elements. The
// metadata: format "phub-snapshot", version, job (the JobSpec as JSON), tenant, round, sha256 (over
// names, shapes and data in order), created (UTC), and of several servers core_load_bytes. Pure
// functions but for reading; any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/safetensors.h"
#include "server/data_plane.h"
#include "server/job_spec.h"

namespace phub::server {

struct SnapshotHead {
  JobSpec spec;
  std::string tenant;
  std::uint64_t round = 0;
  std::string created;
  std::string sha256;
  // What this server's part of the plan was made with, by core, if there are other servers: a plan
  // of the restored job that is made with it has the same chunks here. Else empty.
  std::vector<std::uint64_t> core_load_bytes = {};
};

// `created`: now, as text.
TensorFile snapshot_file(const SnapshotHead& head, const JobCopy& copy, const Plan& plan,
                         std::uint32_t server_index);

// Errors: kDataLoss, for what is no snapshot, is damaged, or of a later version.
Result<SnapshotHead> head_of(const TensorFile& file);
Status verify(const TensorFile& file, const SnapshotHead& head);

// What a job with this plan starts from on server `server_index`. Errors: kFailedPrecondition
// names the part that the file lacks.
Result<std::shared_ptr<JobCopy>> job_copy_from(const TensorFile& file, const SnapshotHead& head,
                                               const Plan& plan, std::uint32_t server_index);

}  // namespace phub::server

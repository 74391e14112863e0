// A job's snapshot as a safetensors file: a tensor "KEY" of parameters and "KEY.state" of optimizer
// state for each key, fp32, and the job in the metadata. Of a rule with two arrays of state these
// are "KEY.exp_avg" and "KEY.exp_avg_sq", as PyTorch has them. "KEY.ema" is the moving average of
// the parameters, if the job has one. "KEY.rack_rest" is what this rack's server has kept back of
// its sums, if the job has rack_compress, or a rack_wire_type of 16 bits.
//
// A server that holds only a part of a key writes "KEY[FROM:TO]" for each run of elements. The
// metadata: format "phub-snapshot", version, job (the JobSpec as JSON), tenant, round, created
// (UTC), where workers said so what the rounds used of the job's samples (samples, samples_seed,
// samples_used), of several servers core_load_bytes, where votes left out rounds their number as
// left_out, and sha256. Version 2: sha256 is over "NAME=BYTES:" and the text of all other metadata
// in order of their names, then over "NAME:ELEMENTS;" and the data of each tensor in order. Version
// 1, which is still read, covered the tensors alone.
//
// Pure functions but for reading; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/job/spec.h"
#include "common/samples/ledger.h"
#include "common/tensors/safetensors.h"
#include "server/plane/data_plane.h"

namespace phub::server {

struct SnapshotHead {
  JobSpec spec;
  std::string tenant;
  std::uint64_t round = 0;
  std::string created;
  std::string sha256;
  std::uint64_t left_out = 0;  // of the rounds, by votes
  // What this server's part of the plan was made with, by core, if there are other servers: a plan
  // of the restored job that is made with it has the same chunks here. Else empty.
  std::vector<std::uint64_t> core_load_bytes = {};
  // What the job's rounds use of its samples. Of a file: `used` when this round is over.
  SampleLedger samples = {};
};

// What is written. The tensors' values are the copy's, which outlives this.
struct SnapshotParts {
  std::vector<TensorView> tensors;
  TensorMetadata metadata;
};

// `created`: now, as text. Errors: kFailedPrecondition for keys that a file cannot tell apart.
Result<SnapshotParts> snapshot_parts(const SnapshotHead& head, const JobCopy& copy,
                                     const Plan& plan, std::uint32_t server_index);

// What such a file takes, whatever the round. Errors: as snapshot_parts, and kFailedPrecondition if
// it could not be read back.
Result<std::uint64_t> snapshot_bytes(const SnapshotHead& head, const Plan& plan,
                                     std::uint32_t server_index);

// Errors: kDataLoss, for what is no snapshot, or of a later version.
Result<SnapshotHead> head_of(const TensorMetadata& metadata);

// Reads all and compares the checksum; takes a megabyte of memory. Errors: kDataLoss.
Status verify(const SafetensorsReader& file, const SnapshotHead& head);

// What a job with this plan starts from on server `server_index`; verified. Errors: kDataLoss;
// kFailedPrecondition names the part that the file lacks.
Result<std::shared_ptr<JobCopy>> job_copy_from(const SafetensorsReader& file,
                                               const SnapshotHead& head, const Plan& plan,
                                               std::uint32_t server_index);

}  // namespace phub::server

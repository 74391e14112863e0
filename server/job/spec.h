// What a job is: everything two joins of one job must agree on.
//
// Plain values, without protobuf; pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "common/plan/plan.h"

namespace phub::server {

struct JobKey {
  std::string name;
  std::uint64_t elements = 0;
  float weight_decay = 0.0F;
  bool plain = false;  // rule lars: at trust 1
};

struct JobSpec {
  std::string name;
  std::uint32_t workers = 1;
  DataType wire_type = DataType::kFloat32;
  RuleKind rule = RuleKind::kSum;
  bool deterministic = true;
  std::uint32_t chunk_bytes = 32 * 1024;
  Hyper hyper{.gradient_scale = 0.0F};    // gradient_scale 0: 1 / workers
  LarsOptions lars{.coefficient = 0.0F};  // coefficient 0: the default
  LossScale loss_scale = {};
  std::vector<JobKey> keys;  // in forward order
};

struct JobLimits {
  std::size_t keys_max = 1'000'000;
  std::size_t name_chars_max = 256;
  std::uint64_t elements_max = std::uint64_t{1} << 38;  // of all keys: 1 TiB of fp32
  // With chunks of 32 KiB 512 GiB of keys. A chunk's tables are some 330 bytes, and 93 for each
  // worker (footprint.h), which count as the job's: 13 GB for 400 GB in such chunks and 8
  // workers.
  std::uint64_t chunks_max = kMaxChunks;
  // Below this the tables of a job (footprint.h) are as large as its model.
  std::uint32_t chunk_bytes_min = 4096;
  std::uint32_t chunk_bytes_max = kMaxChunkBytes;
};

// Whether a peer's spec may be used at all. A spec without keys passes: it is one that waits for
// its first join. Errors: kInvalidArgument names the field, the value and what is allowed.
Status validate(const JobSpec& spec, const JobLimits& limits = {});

// OK when `joining` is the same job as `existing`, whose keys are not looked at when it has none.
// Errors: kInvalidArgument names the first field
// that differs and both values.
Status compare(const JobSpec& existing, const JobSpec& joining);

// The scale that the summed gradient is multiplied with: 1 for sum, 1 / workers unless set.
float gradient_scale_of(const JobSpec& spec);

// The trust coefficient that holds.
LarsOptions lars_of(const JobSpec& spec);

// The plan's input for this job on these servers.
PlanInput plan_input(const JobSpec& spec, const std::vector<std::uint32_t>& cores_per_server,
                     const std::vector<std::uint64_t>& core_load_bytes = {});

}  // namespace phub::server

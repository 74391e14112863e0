// Which specs of a job are taken, and which of them are the same job.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "common/job/spec.h"
#include "common/plan/plan.h"

namespace phub {

struct JobLimits {
  std::size_t keys_max = 1'000'000;
  std::size_t name_bytes_max = 256;
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
// Errors: kInvalidArgument names the first field that differs and both values.
Status compare(const JobSpec& existing, const JobSpec& joining);

}  // namespace phub

// What a job may take of this server's memory at most, which admission and tenants' quotas count
// before anything of it is made.
//
// Pure functions of the job's layout; any thread. What a job has taken already is the data plane's
// to say (JobCounters).
#pragma once

#include <cstdint>

#include "server/job/layout.h"

namespace phub::server {

// What the data plane offers, as far as a job's memory depends on it.
struct Offered {
  bool windows = false;  // RDMA: each worker may have a window of its chunks here
  bool sealing = false;  // encrypted tcp: each connection has a buffer to seal into
  bool staging = false;  // tcp: pushes are read into buffers
};

// Of the layout's plan, on this server.
std::uint64_t elements_here(const JobLayout& layout);

// Parameters and optimizer state; sums that wait until the job's workers have voted, or its
// longest keys are whole, count as all of them.
std::uint64_t bytes_needed(const JobLayout& layout);

// What a snapshot takes while it is made, or a restored job until its shards have it: the copy.
// Files are written from it and read into it.
std::uint64_t bytes_copied(const JobLayout& layout);

// The least of bytes_pinned, before the plan is made: of what a peer can make large the plan, and
// where this is the job's only server also parameters and tables. REQUIRES: `input` is the
// layout's, whose plan may be null.
std::uint64_t bytes_at_least(const JobLayout& layout, const PlanInput& input,
                             const Offered& offered);

// Plan, tables by chunk, by push and by connection, logs of rounds: what small chunks and many
// workers make large. An upper bound, within three times of what is allocated.
std::uint64_t bytes_of_bookkeeping(const JobLayout& layout);

// Buffers that tcp's pushes are read into, as many as a job takes while workers that run ahead are
// held back. What it takes beyond them, since workers wait for each other (paused_workers.h),
// counts when it does.
std::uint64_t bytes_of_staging(const JobLayout& layout);

// All of it.
std::uint64_t bytes_pinned(const JobLayout& layout, const Offered& offered);

// So many pushes ahead of the slowest a worker is never held back.
inline constexpr std::uint32_t kChunksAhead = 4;

// Buffers of a core before it holds workers back, and what one takes.
std::size_t staging_budget(const JobLayout& layout);
std::size_t staging_buffer_bytes(const JobLayout& layout);
// Buffers that a core can need at most.
std::size_t staging_buffers(const JobLayout& layout, std::uint32_t core);

}  // namespace phub::server

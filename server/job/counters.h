// What the data plane counts, of jobs, of cores and of both: values since their start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "server/job/latency.h"

namespace phub::server {

struct WorkerTraffic {
  std::uint64_t pushes = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
};

// How many rounds the parameters were behind that a push was computed from: 0, 1, 2 to 3, 4 to 7,
// 8 to 15, 16 to 31, 32 and more.
inline constexpr std::size_t kStalenessBuckets = 7;

// Of a worker of a job with a quorum; chunks and pushes of chunks.
struct WorkerStaleness {
  std::array<std::uint64_t, kStalenessBuckets> pushes = {};
  std::uint64_t dropped = 0;   // for they were late
  std::uint64_t withheld = 0;  // replies that waited for the slowest worker
};

// Of a job with a quorum: of chunks.
struct QuorumCounters {
  std::uint64_t rounds = 0;
  std::uint64_t incomplete = 0;               // that went on without somebody's push
  std::uint64_t graces = 0;                   // of these, those whose grace was over
  std::uint64_t impatient = 0;                // of these, those without their quorum
  std::vector<WorkerStaleness> workers = {};  // by seat; none: the job has no quorum
};

// Between this rack and another one of the job; pushes are sums, or replies to them.
struct RackTraffic {
  WorkerTraffic above;  // its replies are received, this rack's sums are sent
  WorkerTraffic below;  // its sums are received, replies to them are sent
};

struct JobCounters {
  std::uint64_t chunks = 0;         // of this job on this server
  std::uint64_t rounds_before = 0;  // that a restored job had behind it
  std::uint64_t chunks_completed = 0;
  std::uint64_t bytes_received = 0;  // of workers and of other racks
  std::uint64_t bytes_sent = 0;
  std::uint64_t memory_bytes = 0;           // parameters, state, staging: what is resident
  std::uint64_t staging_bytes = 0;          // of which staging: tcp buffers, verbs windows
  std::uint64_t reserved_page_bytes = 0;    // of memory_bytes, in huge pages of the machine's pool
  std::uint64_t queued_pushes = 0;          // arrived and waiting for their turn
  std::uint64_t rounds_skipped = 0;         // by the workers' votes
  std::uint64_t updates_skipped = 0;        // of single chunks: what was not finite
  LatencyCounts push_to_reply = {};         // of each reply, from the chunk's first push
  LatencyCounts wait_for_slowest = {};      // of each chunk, from its first push to its last
  std::vector<WorkerTraffic> workers = {};  // of this rack, by seat
  std::vector<RackTraffic> racks = {};      // by rack, the own one's is empty; none: one rack
  QuorumCounters quorum = {};
};

// One job on one core.
struct CoreJobCounters {
  std::uint64_t job_id = 0;
  std::uint64_t chunks_completed = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t busy_nanoseconds = 0;  // that the core worked for it
  std::uint64_t queued_pushes = 0;
};

struct CoreCounters {
  std::int32_t cpu = -1;  // -1: not pinned
  std::uint64_t chunks_completed = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t busy_nanoseconds = 0;  // since start
  std::uint64_t sleeps = 0;
  std::uint32_t connections = 0;
  std::vector<CoreJobCounters> jobs = {};  // that have chunks there
};

struct DropCounter {
  std::string_view cause;  // "bad magic", "wrong secret", "oversized length", ...
  std::uint64_t count = 0;
};

using StagedBeyond = std::map<std::uint64_t, std::uint64_t>;  // bytes, by job id

}  // namespace phub::server

// What the data plane counts, of jobs, of cores and of both: values since their start.
#pragma once

#include <array>
#include <cmath>
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

// An element of a push that is not finite.
struct NotFinite {
  std::uint64_t round = 0;    // of gradients, from 1 on; 0: it was an initial value
  std::uint32_t key = 0;      // its index
  std::uint64_t element = 0;  // of the key
  float value = 0.0F;
};

inline constexpr std::string_view kNotFiniteWords[] = {"NaN", "+inf", "-inf"};
inline std::string_view word_of(float not_finite) {
  if (std::isnan(not_finite)) return kNotFiniteWords[0];
  return kNotFiniteWords[not_finite > 0.0F ? 1 : 2];
}

// Of one worker.
struct WorkerValues {
  std::uint64_t pushes = 0;  // of chunks, with one such value at least
  NotFinite first = {};      // these two where there are pushes
  NotFinite last = {};
  std::uint64_t overflow_votes = 0;
};

// What one core has of a job's workers, to what the others have: each core has every vote.
inline void add(const std::vector<WorkerValues>& of_core, std::vector<WorkerValues>& all) {
  all.resize(of_core.size());
  for (std::size_t seat = 0; seat < of_core.size(); ++seat) {
    const WorkerValues& one = of_core[seat];
    WorkerValues& sum = all[seat];
    if (one.overflow_votes > sum.overflow_votes) sum.overflow_votes = one.overflow_votes;
    if (one.pushes == 0) continue;
    if (sum.pushes == 0 || one.first.round < sum.first.round) sum.first = one.first;
    if (sum.pushes == 0 || one.last.round > sum.last.round) sum.last = one.last;
    sum.pushes += one.pushes;
  }
}

// Of one worker of a job with checksums.
struct WorkerCorruption {
  std::uint64_t pushes = 0;  // of chunks, whose checksum is another than that which came with them
  std::uint64_t round = 0;   // of the first, of gradients, from 1 on; 0: it was an initial value
  std::uint32_t key = 0;     // of the first: the index of its chunk's first key
};

// What one core has found, to what the others have.
inline void add(const std::vector<WorkerCorruption>& of_core, std::vector<WorkerCorruption>& all) {
  all.resize(of_core.size());
  for (std::size_t seat = 0; seat < of_core.size(); ++seat) {
    const WorkerCorruption& one = of_core[seat];
    if (one.pushes == 0) continue;
    const std::uint64_t pushes = all[seat].pushes + one.pushes;
    if (all[seat].pushes == 0 || one.round < all[seat].round) all[seat] = one;
    all[seat].pushes = pushes;
  }
}

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
  std::vector<WorkerValues> values = {};          // by seat; none: nothing was found, or looked for
  std::vector<WorkerCorruption> corruption = {};  // the same
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

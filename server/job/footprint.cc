#include "server/job/footprint.h"

#include <algorithm>

#include "common/plan/plan.h"
#include "common/transport/tcp/sealed_stream.h"
#include "server/job/buffer_pool.h"
#include "server/sharing/arrival_queue.h"

namespace phub::server {
namespace {

// A few times the level 2 cache: workers in step never need more.
constexpr std::size_t kStagingBudgetBytes = 4U << 20U;

// Bytes of tables, rounded up; job_footprint_test compares them with what is allocated.
constexpr std::uint64_t kBytesOfCore = 24 << 10;      // a shard, and its log of rounds
constexpr std::uint64_t kBytesOfChunk = 256;          // its state, stamps, group, landings
constexpr std::uint64_t kBytesOfRackOffset = 8;       // of where it goes up from
constexpr std::uint64_t kBytesOfRackPlace = 16 + 16;  // its place and length, and a Hyper
constexpr std::uint64_t kBytesOfOuter = 64;  // its sum of differences, and who has sent one
constexpr std::uint64_t kBytesOfOpen = 128;  // times, sets and buffers of racks that do not wait
constexpr std::uint64_t kBytesOfRacksPush = 16 + 8;  // a contribution; its core and slot there
constexpr std::uint64_t kBytesOfRun = 16;            // elements with one weight decay
constexpr std::uint64_t kBytesOfNorms = 288;         // of a run under rule lars
constexpr std::uint64_t kBytesOfSquares = 16;        // of a chunk whose gradients are clipped
constexpr std::uint64_t kBytesOfPush = 16 + 4 + 64;  // contribution, free buffer, two arrivals
constexpr std::uint64_t kBytesOfQuorumsPush = 9;     // base, count, bits of sets
constexpr std::uint64_t kBytesOfQuorumsChunk = 128;  // deadlines, hyper; sets of a few workers
constexpr std::uint64_t kBytesOfValues = 96;    // of a worker on a core, where these are watched
constexpr std::uint64_t kBytesOfNorm = 9;       // of a worker on a core: its word of a norm
constexpr std::uint64_t kBytesOfChecks = 64;    // of the same, where pushes have checksums
constexpr std::uint64_t kBytesOfPusher = 2;     // of a push, where it is to be known whose it is
constexpr std::uint64_t kBytesOfSlotsEnd = 64;  // of a window: behind a chunk, for its checksum
constexpr std::uint64_t kBytesOfSelected = 12;  // of an element of the longest chunk, on a core
constexpr std::uint64_t kBytesOfConnection = 12 << 10;
constexpr std::uint64_t kBytesOfConnectionsChunk = 9;  // in its set of replies, in its receives

std::uint64_t bytes_of_plan(const PlanSize& plan) {
  constexpr std::uint64_t kBytesOfKey = 16;
  constexpr std::uint64_t kBytesOfSlot = sizeof(std::uint32_t);
  return plan.chunks * (sizeof(Chunk) + kBytesOfSlot) + plan.segments * sizeof(Segment) +
         plan.keys * kBytesOfKey;
}

// What of a job is on this server.
struct Placed {
  std::uint64_t cores = 0;
  std::uint64_t chunks = 0;
  std::uint64_t segments = 0;
  std::uint64_t elements = 0;
};

Placed placed_here(const JobLayout& layout) {
  Placed placed{.cores = layout.plan->core_chunks[layout.server_index].size()};
  for (const Chunk& chunk : layout.plan->chunks) {
    if (chunk.server != layout.server_index) continue;
    ++placed.chunks;
    placed.segments += chunk.segment_count;
    placed.elements += chunk.elements;
  }
  return placed;
}

std::uint64_t bytes_needed(const JobLayout& layout, std::uint64_t elements) {
  const std::uint64_t wire = size_of(layout.wire_type);
  const std::uint64_t master = layout.wire_type == DataType::kFloat32 ? 0 : sizeof(float);
  const std::uint64_t sum = defers_updates(layout) ? sizeof(float) : 0;
  const std::uint64_t replies = has_sparse_replies(layout) ? wire : 0;
  // Racks that do not wait for each other: a reply to each, and what is to be merged.
  const std::uint64_t open = layout.rack_local.goes_on() ? layout.rack.racks() * sizeof(float) : 0;
  const std::uint64_t up = layout.rack.is_alone() ? 0 : sizeof(float) + open;
  return elements * (wire + master + sum + replies + up + arrays_in_memory(layout) * sizeof(float));
}

std::uint64_t bytes_of_tables(const JobLayout& layout, const Placed& placed) {
  const std::uint64_t workers = seats(layout);
  const bool has_quorum = !layout.rounds.waits_for_all();
  const bool is_named = layout.watch_values != WatchValues::kOff || layout.checksums;
  const std::uint64_t push =
      kBytesOfPush + (has_quorum ? kBytesOfQuorumsPush : 0) + (is_named ? kBytesOfPusher : 0);
  const std::uint64_t run = kBytesOfRun + (needs_whole_keys(layout.rule) ? kBytesOfNorms : 0);
  const std::uint64_t clipped = layout.clip_norm > 0.0F ? kBytesOfSquares : 0;
  const std::uint64_t place =
      (combines_sums(layout) ? kBytesOfRackPlace : 0) +
      (layout.rack_local.is_on() ? kBytesOfOuter : 0) +
      (layout.rack_local.goes_on() ? kBytesOfOpen + layout.rack.racks() * (sizeof(float) + 1) : 0) +
      (layout.rack.is_alone() ? 0 : kBytesOfRackOffset + layout.rack.racks() * kBytesOfRacksPush);
  const std::uint64_t chunk =
      kBytesOfChunk + clipped + place + (has_quorum ? kBytesOfQuorumsChunk : 0);
  std::uint64_t member = layout.watch_values == WatchValues::kOff ? 0 : kBytesOfValues;
  if (layout.checksums) member += kBytesOfChecks;
  if (clips_over_servers(layout)) member += kBytesOfNorm;
  return placed.cores * (kBytesOfCore + workers * member) + placed.chunks * chunk +
         placed.segments * run +
         (placed.chunks + 2 * placed.cores * layout.tcp_streams) * workers * push +
         workers * layout.tcp_streams *
             (placed.cores * kBytesOfConnection + placed.chunks * kBytesOfConnectionsChunk);
}

// Of connections that are encrypted, and of workers that write into memory here.
std::uint64_t bytes_of_ways_in(const JobLayout& layout, const Placed& placed,
                               const Offered& offered) {
  std::uint64_t bytes = 0;
  if (offered.sealing) {
    bytes +=
        seats(layout) * placed.cores * layout.tcp_streams * transport::SealedStream::buffer_bytes();
  }
  if (offered.windows) {
    const std::uint64_t others = layout.rack.racks() - 1;
    const std::uint64_t wide = layout.workers * size_of(layout.wire_type) + others * sizeof(float);
    bytes += placed.elements * wide;
    if (layout.checksums) bytes += placed.chunks * layout.workers * kBytesOfSlotsEnd;
  }
  return bytes;
}

}  // namespace

std::uint64_t elements_here(const JobLayout& layout) { return placed_here(layout).elements; }

std::uint64_t bytes_needed(const JobLayout& layout) {
  return bytes_needed(layout, elements_here(layout));
}

std::uint64_t bytes_copied(const JobLayout& layout) {
  return elements_here(layout) * (1 + state_arrays(layout)) * sizeof(float);
}

std::uint64_t bytes_of_bookkeeping(const JobLayout& layout) {
  const Placed placed = placed_here(layout);
  const bool selects = has_sparse_replies(layout) || combines_sums(layout);
  const std::uint64_t compared = selects ? layout.plan->max_chunk_elements * kBytesOfSelected : 0;
  return bytes_of_plan(size_of(*layout.plan)) + bytes_of_tables(layout, placed) +
         placed.cores * compared;
}

std::uint64_t bytes_at_least(const JobLayout& layout, const PlanInput& input,
                             const Offered& offered) {
  const PlanSize size = size_of_plan(input);
  const std::uint64_t plan = bytes_of_plan(size);
  if (input.cores_per_server.size() != 1) return plan;
  Placed placed{
      .cores = input.cores_per_server[0], .chunks = size.chunks, .segments = size.segments};
  for (const std::uint64_t elements : input.key_elements) placed.elements += elements;
  return plan + bytes_needed(layout, placed.elements) + bytes_of_tables(layout, placed) +
         bytes_of_ways_in(layout, placed, offered);
}

std::size_t staging_buffer_bytes(const JobLayout& layout) {
  return layout.plan->max_chunk_elements * sizeof(float) +
         (layout.checksums ? sizeof(std::uint32_t) : 0) +
         (combines_sums(layout) ? sizeof(Hyper) : 0);
}

namespace {
// Of each chunk one sum may wait; nobody is held back for it, for others do not wait for the slow.
std::size_t sums_of_quorum(const JobLayout& layout) {
  std::size_t most = 0;
  for (const auto& chunks : layout.plan->core_chunks[layout.server_index]) {
    most = std::max(most, chunks.size());
  }
  return most;
}

// On a core with so many chunks. Of a chunk all pushes but one may wait for others', up to the
// budget; of what is not dense all, for what is in shared memory is there, whatever is copied or
// added up of it; of a quorum one sum.
std::uint64_t waiting_buffers(const JobLayout& layout, std::uint64_t chunks) {
  if (!layout.rounds.waits_for_all()) return chunks;
  const std::uint64_t most = chunks * (seats(layout) - 1);
  const bool is_held_back = layout.encoding == Encoding::kDense;
  return is_held_back ? std::min<std::uint64_t>(most, staging_budget(layout)) : most;
}
}  // namespace

// Every push of every worker is parked, each connection has a frame on its way, and a sum of 16-bit
// pushes is being started. A sum that waits takes the place of its pushes, and so does a reply that
// is one; that of the rack above is read on a connection of its own. With a quorum, workers whose
// pushes are in a sum may push again. Racks that do not wait for each other have a sum of racks and
// what is to be merged of each chunk, and the parts of an outer step.
std::size_t staging_buffers(const JobLayout& layout, std::uint32_t core) {
  const std::size_t above = combines_sums(layout) ? 2 * std::size_t{layout.rack.racks()} : 0;
  const std::size_t chunks = layout.plan->core_chunks[layout.server_index][core].size();
  const std::size_t ways = std::size_t{layout.tcp_streams} * seats(layout);
  const std::size_t sums = layout.rounds.waits_for_all() ? 0 : chunks;
  const std::size_t open = layout.rack_local.goes_on() ? 3 * chunks + ways + 4 : 0;
  return chunks * seats(layout) + 2 * ways + 1 + above + sums + open;
}

std::size_t staging_budget(const JobLayout& layout) {
  if (!layout.rounds.waits_for_all()) return (sums_of_quorum(layout) + 2) * seats(layout) + 1;
  return std::size_t{kChunksAhead} * seats(layout) +
         kStagingBudgetBytes / staging_buffer_bytes(layout);
}

// Beside what waits are those that were read when the budget was used up: what waits for its turn,
// and of each stream what is read of it before it is held back, with the beginning of one more.
std::uint64_t bytes_of_staging(const JobLayout& layout) {
  const std::uint64_t workers = seats(layout);
  const std::uint64_t streams = workers * layout.tcp_streams;
  const std::uint64_t read = kReadsInATurn - 1 + streams * (kReadsInATurn + 1);
  std::uint64_t buffers = 0;
  for (const auto& chunks : layout.plan->core_chunks[layout.server_index]) {
    const std::uint64_t waiting = waiting_buffers(layout, chunks.size());
    buffers += std::min<std::uint64_t>(chunks.size() * workers, waiting + read);
  }
  return buffers * BufferPool::stride_of(staging_buffer_bytes(layout));
}

std::uint64_t bytes_pinned(const JobLayout& layout, const Offered& offered) {
  std::uint64_t bytes = bytes_needed(layout) + bytes_of_bookkeeping(layout);
  // Whatever brings it, what is not dense is copied or added up there, and a quorum's sums are
  // there.
  if (offered.staging || layout.encoding != Encoding::kDense || combines_sums(layout)) {
    bytes += bytes_of_staging(layout);
  } else if (!layout.rounds.waits_for_all()) {
    bytes += placed_here(layout).chunks * BufferPool::stride_of(staging_buffer_bytes(layout));
  }
  bytes += bytes_of_ways_in(layout, placed_here(layout), offered);
  return bytes;
}

}  // namespace phub::server

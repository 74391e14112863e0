#include "server/job_footprint.h"

#include <algorithm>

#include "common/transport/tcp/sealed_stream.h"
#include "server/arrival_queue.h"
#include "server/buffer_pool.h"

namespace phub::server {
namespace {

// A few times the level 2 cache: workers in step never need more.
constexpr std::size_t kStagingBudgetBytes = 4U << 20U;

// Bytes of tables, rounded up; job_footprint_test compares them with what is allocated.
constexpr std::uint64_t kBytesOfCore = 24 << 10;     // a shard, and its log of rounds
constexpr std::uint64_t kBytesOfChunk = 256;         // its state, stamps, group, landings
constexpr std::uint64_t kBytesOfRun = 16;            // elements with one weight decay
constexpr std::uint64_t kBytesOfNorms = 288;         // of a run under rule lars
constexpr std::uint64_t kBytesOfPush = 16 + 4 + 64;  // contribution, free buffer, two arrivals
constexpr std::uint64_t kBytesOfConnection = 12 << 10;
constexpr std::uint64_t kBytesOfConnectionsChunk = 9;  // in its set of answers, in its receives

std::uint64_t bytes_of_plan(const Plan& plan) {
  constexpr std::uint64_t kBytesOfKey = 16;
  constexpr std::uint64_t kBytesOfSlot = sizeof(std::uint32_t);
  return plan.chunks.size() * (sizeof(Chunk) + kBytesOfSlot) +
         plan.segments.size() * sizeof(Segment) + plan.key_offset.size() * kBytesOfKey;
}

}  // namespace

std::uint64_t elements_here(const JobShape& shape) {
  std::uint64_t elements = 0;
  for (const Chunk& chunk : shape.plan->chunks) {
    if (chunk.server == shape.server_index) elements += chunk.elements;
  }
  return elements;
}

std::uint64_t bytes_needed(const JobShape& shape) {
  const std::uint64_t wire = size_of(shape.wire_type);
  const std::uint64_t master = shape.wire_type == DataType::kFloat32 ? 0 : sizeof(float);
  const std::uint64_t held = gathers_sums(shape) ? sizeof(float) : 0;
  return elements_here(shape) * (wire + master + held + state_arrays(shape.rule) * sizeof(float));
}

std::uint64_t bytes_copied(const JobShape& shape) {
  return elements_here(shape) * (1 + state_arrays(shape.rule)) * sizeof(float);
}

std::uint64_t bytes_of_bookkeeping(const JobShape& shape) {
  const Plan& plan = *shape.plan;
  const std::uint64_t workers = shape.workers;
  std::uint64_t bytes = bytes_of_plan(plan);
  for (const auto& chunks : plan.core_chunks[shape.server_index]) {
    bytes += kBytesOfCore + chunks.size() * kBytesOfChunk;
    bytes += (chunks.size() + 2) * workers * kBytesOfPush;
    bytes += workers * (kBytesOfConnection + chunks.size() * kBytesOfConnectionsChunk);
  }
  const std::uint64_t run = kBytesOfRun + (needs_whole_keys(shape.rule) ? kBytesOfNorms : 0);
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server == shape.server_index) bytes += chunk.segment_count * run;
  }
  return bytes;
}

std::size_t staging_buffer_bytes(const JobShape& shape) {
  return shape.plan->max_chunk_elements * sizeof(float);
}

std::size_t staging_budget(const JobShape& shape) {
  return std::size_t{kChunksAhead} * shape.workers +
         kStagingBudgetBytes / staging_buffer_bytes(shape);
}

// Of a chunk all pushes but one may wait for others', up to the budget. Beside them are those that
// were read when it was used up: what waits for its turn, and of each stream what is read of it
// before it is held back, with the beginning of one more.
std::uint64_t bytes_of_staging(const JobShape& shape) {
  const std::uint64_t workers = shape.workers;
  const std::uint64_t read = kReadsInATurn - 1 + workers * (kReadsInATurn + 1);
  std::uint64_t buffers = 0;
  for (const auto& chunks : shape.plan->core_chunks[shape.server_index]) {
    const std::uint64_t waiting =
        std::min<std::uint64_t>(chunks.size() * (workers - 1), staging_budget(shape));
    buffers += std::min<std::uint64_t>(chunks.size() * workers, waiting + read);
  }
  return buffers * BufferPool::stride_of(staging_buffer_bytes(shape));
}

std::uint64_t bytes_pinned(const JobShape& shape, const Offered& offered) {
  std::uint64_t bytes = bytes_needed(shape) + bytes_of_bookkeeping(shape);
  if (offered.staging) bytes += bytes_of_staging(shape);
  if (offered.sealing) {
    const std::uint64_t cores = shape.plan->core_chunks[shape.server_index].size();
    bytes += shape.workers * cores * transport::SealedStream::buffer_bytes();
  }
  if (offered.windows) {
    bytes += elements_here(shape) * shape.workers * size_of(shape.wire_type);
  }
  return bytes;
}

}  // namespace phub::server

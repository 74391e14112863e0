// The plan: which chunk of which key lives on which core of which server.
//
// A pure function of its input: workers and servers compute it alone and compare hashes. Immutable
// after make_plan; safe to read from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"

namespace phub {

// Every chunk begins on a bound of this many bytes, and large keys are sliced on such bounds: a
// cache line, so that two cores never write to the same one.
inline constexpr std::uint32_t kChunkAlignment = 64;
inline constexpr std::uint32_t kMaxChunkBytes = 4 * 1024 * 1024;
// Of the whole plan, which takes at most about a gigabyte then. With chunks of 32 KiB this is 512
// GiB of keys.
inline constexpr std::uint32_t kMaxChunks = (1U << 24) - 2;
// Of one core: the slots of common/protocol/wire.h.
inline constexpr std::uint32_t kMaxCoreChunks = (1U << 23) - 3;
// Of a job. A server keeps 16 bytes for each worker and chunk, which is to be little beside the
// chunk: with very many workers chunks of 256 KiB and more are sensible.
inline constexpr std::uint32_t kMaxWorkers = 1024;
inline constexpr std::uint32_t kMaxTcpStreams = 16;   // of one worker to one core
inline constexpr std::uint32_t kMaxCores = 1U << 16;  // of all servers together
inline constexpr std::uint64_t kMaxCoreLoadBytes = std::uint64_t{1} << 60;

struct PlanInput {
  std::vector<std::uint64_t> key_elements;  // in forward order, each > 0
  DataType wire_type = DataType::kFloat32;
  std::uint32_t chunk_bytes = 32 * 1024;        // payload of a full chunk, a multiple of 64
  std::vector<std::uint32_t> cores_per_server;  // each > 0
  // What other jobs have on each core already, server after server; empty: nothing anywhere.
  std::vector<std::uint64_t> core_load_bytes = {};
  // All chunks of a key go to one core: for rules that need a whole key at once (lars).
  bool whole_keys = false;
  // Trees over racks (rack_trees.h) that chunks are spread over; 0: one rack.
  std::uint32_t rack_trees = 0;
  // So many of them, the first ones, are for small keys only, the others for large ones: 0, or less
  // than rack_trees. Small are keys that share chunks, and those of at most so many bytes.
  std::uint32_t small_key_trees = 0;
  std::uint64_t small_key_bytes = 0;
};

// A key's part in a chunk.
struct Segment {
  std::uint32_t key;
  std::uint64_t key_offset;    // elements from the start of the key
  std::uint32_t chunk_offset;  // elements from the start of the chunk
  std::uint32_t elements;
};

// The unit of exchange: a contiguous range of the arena.
struct Chunk {
  std::uint64_t arena_offset;  // elements; its byte address is a multiple of 64
  std::uint32_t elements;
  std::uint32_t server;
  std::uint32_t core;           // within the server
  std::uint32_t slot;           // position in its core's list: the chunk index of the immediate
  std::uint32_t tree = 0;       // over racks, that it goes through
  std::uint32_t first_segment;  // its segments are segments[first_segment .. + segment_count)
  std::uint32_t segment_count;
};

struct Plan {
  std::vector<Chunk> chunks;               // in forward order of their first key
  std::vector<Segment> segments;           // grouped by chunk, in arena order
  std::vector<std::uint64_t> key_offset;   // arena offset of each key, in elements; contiguous
  std::vector<std::uint32_t> first_chunk;  // first chunk that holds a part of the key
  std::vector<std::uint32_t> chunk_count;  // number of consecutive chunks that hold parts of it
  std::uint64_t arena_elements = 0;        // length of the packed arena, padding included
  std::uint32_t max_chunk_elements = 0;
  // core_chunks[server][core] = chunk ids in ascending order; slot s of the core is entry s.
  std::vector<std::vector<std::vector<std::uint32_t>>> core_chunks;
  std::uint64_t hash = 0;  // over everything above and the input but other jobs' load
  // The same of what all racks of a job have alike: not over cores and slots. 0: one rack.
  std::uint64_t racks_hash = 0;
};

// Cuts and places. A key of more than a quarter of a chunk is sliced evenly on 64-byte bounds into
// ceil(bytes / chunk_bytes) chunks; smaller neighbours are fused until a chunk is full. Chunks go
// longest first (ties: by index) to the least loaded core (ties: server 0's core 0 first), other
// jobs' load counted; on cores that are empty at first this is within 4/3 - 1/(3m) of the optimum
// on m cores (Graham, "Bounds on multiprocessing timing anomalies", 1969). With whole_keys what is
// placed so is a sliced key's chunks together: a key that is larger than a core's even share then
// sets the busiest core's load. With rack_trees chunks are spread over the trees first, likewise,
// of small keys and of large ones apart where their trees are; then over servers, whatever their
// cores; then over each server's cores. So racks whose servers have other cores differ in cores
// alone (place.h). Other jobs' load then counts for nothing, for no rack knows another's. Errors:
// kInvalidArgument names the field.
Result<Plan> make_plan(const PlanInput& input);

// How large a plan is, which is known before it is made: its input may come from a peer.
struct PlanSize {
  std::uint64_t chunks = 0;
  std::uint64_t segments = 0;
  std::uint64_t keys = 0;
};
inline PlanSize size_of(const Plan& plan) {
  return {plan.chunks.size(), plan.segments.size(), plan.key_offset.size()};
}
// Of the plan that make_plan would make, if the input is valid. Allocates nothing.
PlanSize size_of_plan(const PlanInput& input);

}  // namespace phub

#include "common/plan/plan.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>

#include "common/base/check.h"
#include "common/plan/place.h"

namespace phub {
namespace {

std::uint64_t divide_up(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor == 0 ? 0 : 1);
}

Status invalid(const std::string& message) { return {Code::kInvalidArgument, message}; }

// Runs before anything of the plan's size is allocated: the input may come from a peer.
Status validate_keys(const PlanInput& input) {
  const auto& keys = input.key_elements;
  if (keys.empty()) return invalid("key_elements: no keys; a job needs at least one");
  const std::uint64_t element_bytes = size_of(input.wire_type);
  const auto& servers = input.cores_per_server;
  const std::uint64_t cores = std::accumulate(servers.begin(), servers.end(), std::uint64_t{0});
  const std::uint64_t limit = std::min<std::uint64_t>(kMaxChunks, cores * kMaxCoreChunks);
  const std::uint64_t key_limit = limit * input.chunk_bytes / element_bytes;
  std::uint64_t chunks = 0;  // an upper bound: as if no neighbours were fused
  for (std::size_t key = 0; key < keys.size(); ++key) {
    const std::string field = "key_elements[" + std::to_string(key) + "]";
    if (keys[key] == 0) return invalid(field + ": is 0; a key needs at least one element");
    if (keys[key] <= key_limit) chunks += divide_up(keys[key] * element_bytes, input.chunk_bytes);
    if (keys[key] > key_limit || chunks > limit) {
      return invalid(field + ": " + std::to_string(keys[key]) +
                     " elements; the keys make more than " + std::to_string(limit) +
                     " chunks, the most of " + std::to_string(cores) +
                     " cores; use a larger chunk_bytes than " + std::to_string(input.chunk_bytes));
    }
  }
  return {};
}

Status validate_servers(const PlanInput& input) {
  if (input.cores_per_server.empty()) return invalid("cores_per_server: no servers");
  std::uint64_t cores = 0;
  for (std::size_t server = 0; server < input.cores_per_server.size(); ++server) {
    if (input.cores_per_server[server] == 0) {
      return invalid("cores_per_server[" + std::to_string(server) +
                     "]: is 0; a server needs at least one core");
    }
    cores += input.cores_per_server[server];
  }
  if (cores > kMaxCores) {
    return invalid("cores_per_server: " + std::to_string(cores) + " cores in all; at most " +
                   std::to_string(kMaxCores));
  }
  const auto& loads = input.core_load_bytes;
  if (!loads.empty() && loads.size() != cores) {
    return invalid("core_load_bytes: " + std::to_string(loads.size()) + " entries for " +
                   std::to_string(cores) + " cores; give one for each core, or none");
  }
  for (const std::uint64_t load : loads) {
    if (load > kMaxCoreLoadBytes) {
      return invalid("core_load_bytes: " + std::to_string(load) + "; at most " +
                     std::to_string(kMaxCoreLoadBytes));
    }
  }
  return {};
}

Status validate(const PlanInput& input) {
  if (input.chunk_bytes < kChunkAlignment || input.chunk_bytes > kMaxChunkBytes ||
      input.chunk_bytes % kChunkAlignment != 0) {
    return invalid("chunk_bytes: " + std::to_string(input.chunk_bytes) +
                   "; must be a multiple of 64 from 64 to " + std::to_string(kMaxChunkBytes));
  }
  if (input.small_key_trees > 0 && input.small_key_trees >= input.rack_trees) {
    return invalid("small_key_trees: " + std::to_string(input.small_key_trees) + " of " +
                   std::to_string(input.rack_trees) + " trees; leave some for large keys");
  }
  PHUB_RETURN_IF_ERROR(validate_servers(input));
  return validate_keys(input);
}

// Lays the keys out in the arena and cuts it into chunks.
class Cutter {
 public:
  Cutter(const PlanInput& input, Plan& plan)
      : chunk_bytes_(input.chunk_bytes),
        element_bytes_(size_of(input.wire_type)),
        line_elements_(kChunkAlignment / element_bytes_),
        plan_(plan) {}

  void add_key(std::uint64_t elements) {
    const auto key = static_cast<std::uint32_t>(plan_.key_offset.size());
    if (is_small_key(elements * element_bytes_, chunk_bytes_)) {
      add_small(key, elements);
    } else {
      add_sliced(key, elements);
    }
  }

  void finish() {
    align();
    plan_.arena_elements = end_;
    for (const Chunk& chunk : plan_.chunks) {
      plan_.max_chunk_elements = std::max(plan_.max_chunk_elements, chunk.elements);
    }
  }

 private:
  void align() { end_ = divide_up(end_, line_elements_) * line_elements_; }

  void open_chunk() {
    align();
    plan_.chunks.push_back({.arena_offset = end_,
                            .elements = 0,
                            .server = 0,
                            .core = 0,
                            .slot = 0,
                            .tree = 0,
                            .first_segment = static_cast<std::uint32_t>(plan_.segments.size()),
                            .segment_count = 0});
  }

  void append(std::uint32_t key, std::uint64_t key_offset, std::uint64_t elements) {
    Chunk& chunk = plan_.chunks.back();
    const auto count = static_cast<std::uint32_t>(elements);
    plan_.segments.push_back({key, key_offset, chunk.elements, count});
    chunk.elements += count;
    ++chunk.segment_count;
    end_ += elements;
  }

  void record_key(std::uint64_t chunk_count) {
    plan_.key_offset.push_back(end_);
    plan_.first_chunk.push_back(static_cast<std::uint32_t>(plan_.chunks.size() - 1));
    plan_.chunk_count.push_back(static_cast<std::uint32_t>(chunk_count));
  }

  void add_small(std::uint32_t key, std::uint64_t elements) {
    const bool fits =
        fusing_ && (plan_.chunks.back().elements + elements) * element_bytes_ <= chunk_bytes_;
    if (!fits) open_chunk();
    fusing_ = true;
    record_key(1);
    append(key, 0, elements);
  }

  // Slices differ by at most one line; the last one also lacks what the key lacks to a full line.
  void add_sliced(std::uint32_t key, std::uint64_t elements) {
    fusing_ = false;
    const std::uint64_t slices = divide_up(elements * element_bytes_, chunk_bytes_);
    const std::uint64_t lines = divide_up(elements, line_elements_);
    std::uint64_t offset = 0;
    for (std::uint64_t slice = 0; slice < slices; ++slice) {
      open_chunk();
      if (slice == 0) record_key(slices);
      const std::uint64_t slice_lines = lines / slices + (slice < lines % slices ? 1 : 0);
      const std::uint64_t count = std::min(slice_lines * line_elements_, elements - offset);
      append(key, offset, count);
      offset += count;
    }
  }

  const std::uint64_t chunk_bytes_;
  const std::uint64_t element_bytes_;
  const std::uint64_t line_elements_;
  Plan& plan_;
  std::uint64_t end_ = 0;  // of the arena so far, in elements
  bool fusing_ = false;    // the last chunk holds small keys only and may take another
};

void number_slots(const std::vector<std::uint32_t>& cores_per_server, Plan& plan) {
  for (const std::uint32_t cores : cores_per_server) plan.core_chunks.emplace_back(cores);
  for (std::uint32_t id = 0; id < plan.chunks.size(); ++id) {
    Chunk& chunk = plan.chunks[id];
    auto& list = plan.core_chunks[chunk.server][chunk.core];
    chunk.slot = static_cast<std::uint32_t>(list.size());
    list.push_back(id);
  }
}

Status validate_slots(const PlanInput& input, const Plan& plan) {
  for (const auto& cores : plan.core_chunks) {
    for (const auto& chunks : cores) {
      if (chunks.size() <= kMaxCoreChunks) continue;
      return invalid("chunk_bytes: with " + std::to_string(input.chunk_bytes) + " one core has " +
                     std::to_string(chunks.size()) + " chunks, at most " +
                     std::to_string(kMaxCoreChunks) + " fit; use larger chunks or more cores");
    }
  }
  return {};
}

// FNV-1a over the little-endian bytes of 64-bit words (http://www.isthe.com/chongo/tech/comp/fnv).
class Hash {
 public:
  void add(std::uint64_t word) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      value_ = (value_ ^ ((word >> shift) & 0xFFU)) * 0x100000001B3ULL;
    }
  }
  void add(std::initializer_list<std::uint64_t> words) {
    for (const std::uint64_t word : words) add(word);
  }
  template <typename T>
  void add_all(const std::vector<T>& words) {
    add(words.size());
    for (const T word : words) add(word);
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

// Over what both ends have alike, or all racks of a job.
enum class Alike { kPlan, kRacks };

// core_chunks and max_chunk_elements follow from the chunks.
std::uint64_t hash_of(const PlanInput& input, const Plan& plan, Alike alike) {
  const bool has_cores = alike == Alike::kPlan;
  Hash hash;
  hash.add_all(input.key_elements);
  hash.add(static_cast<std::uint64_t>(input.wire_type));
  hash.add(input.chunk_bytes);
  has_cores ? hash.add_all(input.cores_per_server) : hash.add(input.cores_per_server.size());
  if (input.whole_keys) hash.add(1);
  if (input.rack_trees > 0) hash.add({input.rack_trees, 2});
  if (input.small_key_trees > 0) hash.add({input.small_key_trees, input.small_key_bytes, 3});
  hash.add(plan.chunks.size());
  for (const Chunk& chunk : plan.chunks) {
    hash.add({chunk.arena_offset, chunk.elements, chunk.server});
    if (has_cores) hash.add({chunk.core, chunk.slot});
    hash.add({chunk.first_segment, chunk.segment_count});
    if (input.rack_trees > 0) hash.add(chunk.tree);
  }
  hash.add(plan.segments.size());
  for (const Segment& segment : plan.segments) {
    hash.add({segment.key, segment.key_offset, segment.chunk_offset, segment.elements});
  }
  hash.add_all(plan.key_offset);
  hash.add_all(plan.first_chunk);
  hash.add_all(plan.chunk_count);
  hash.add(plan.arena_elements);
  return hash.value();
}

}  // namespace

PlanSize size_of_plan(const PlanInput& input) {
  const std::uint64_t element_bytes = size_of(input.wire_type);
  PlanSize size{.keys = input.key_elements.size()};
  std::uint64_t fused_bytes = 0;  // of the last chunk, while it may take another small key
  for (const std::uint64_t elements : input.key_elements) {
    const std::uint64_t bytes = elements * element_bytes;
    if (!is_small_key(bytes, input.chunk_bytes)) {
      const std::uint64_t slices = divide_up(bytes, input.chunk_bytes);
      size.chunks += slices;
      size.segments += slices;
      fused_bytes = 0;
      continue;
    }
    if (fused_bytes == 0 || fused_bytes + bytes > input.chunk_bytes) {
      ++size.chunks;
      fused_bytes = 0;
    }
    fused_bytes += bytes;
    ++size.segments;
  }
  return size;
}

Result<Plan> make_plan(const PlanInput& input) {
  PHUB_RETURN_IF_ERROR(validate(input));
  Plan plan;
  const PlanSize size = size_of_plan(input);  // what grows by doubling would take twice as much
  plan.chunks.reserve(size.chunks);
  plan.segments.reserve(size.segments);
  Cutter cutter(input, plan);
  for (const std::uint64_t elements : input.key_elements) cutter.add_key(elements);
  cutter.finish();
  PHUB_DCHECK(plan.chunks.size() == size.chunks && plan.segments.size() == size.segments,
              "the plan has the size that was told before");
  place_chunks(input, plan);
  number_slots(input.cores_per_server, plan);
  PHUB_RETURN_IF_ERROR(validate_slots(input, plan));
  plan.hash = hash_of(input, plan, Alike::kPlan);
  if (input.rack_trees > 0) plan.racks_hash = hash_of(input, plan, Alike::kRacks);
  return plan;
}

}  // namespace phub

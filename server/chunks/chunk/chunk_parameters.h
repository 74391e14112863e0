// A job's parameters on one core: what the rule updates, run by run, and what workers read.
//
// A run is a part of a chunk with one weight decay; under rules lars and lamb it is of one key.
// Data of a Shard; its core's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/reduce.h"
#include "server/chunks/chunk/rack_residuals.h"
#include "server/chunks/chunk/shard_chunk.h"
#include "server/job/memory.h"

namespace phub::server {

class ChunkParameters {
 public:
  struct Run {
    std::uint32_t offset;
    std::uint32_t elements;
    float weight_decay;
  };

  ChunkParameters(const JobLayout& layout, std::shared_ptr<JobMemory> memory);
  // Adds the core's next chunk and returns its place. At set-up.
  ChunkPlace add(const JobLayout& layout, const Chunk& chunk);

  const Run& run(std::uint32_t index) const { return runs_[index]; }
  // Returns the bytes of a dense push of the chunk, or of a reply with it.
  std::uint32_t bytes(const ChunkPlace& place) const {
    return static_cast<std::uint32_t>(place.elements * size_of(wire_type_));
  }
  // Returns where the chunk is in the plan's arena, in bytes of the wire type.
  std::uint64_t arena_bytes(const ChunkPlace& place) const {
    return place.arena_offset * size_of(wire_type_);
  }
  std::span<const std::byte> published(const ChunkPlace& place) const {
    return {published_ + place.home * size_of(wire_type_), bytes(place)};
  }
  double sum_of_squares(const ChunkPlace& place, const Run& run) const {
    return kernels::sum_of_squares(parameters_ + place.home + run.offset, run.elements);
  }

  // Is called before the runs of a chunk are updated.
  void begin_update(const ShardChunk& chunk) {
    if (is_adaptive_) find_step(chunk);
  }
  // Sums the sources and applies the rule to a run of the chunk. REQUIRES: begin_update.
  void update(const ChunkPlace& place, const Run& run, std::span<const kernels::Source> sources,
              const Hyper& hyper, float trust = 1.0F) {
    kernels::update(arguments(place, run, sources, hyper, trust));
    update_average(place, run);
  }
  // Makes the first pass of rule lamb: writes the direction where the sum is, and returns the sum
  // of its squares. REQUIRES: begin_update.
  double direct(const ChunkPlace& place, const Run& run, float* sum, const Hyper& hyper) {
    const kernels::Source source{reinterpret_cast<const std::byte*>(sum), DataType::kFloat32};
    kernels::lamb_direction(arguments(place, run, {&source, 1}, hyper, 1.0F), sum);
    return kernels::sum_of_squares(sum, run.elements);
  }
  // Does the same as `update`. Returns whether all new parameters are finite.
  bool update_and_look(const ChunkPlace& place, const Run& run,
                       std::span<const kernels::Source> sources, const Hyper& hyper) {
    const bool finite = kernels::update_and_look(arguments(place, run, sources, hyper, 1.0F));
    update_average(place, run);
    return finite;
  }
  // Sets the chunk's parameters to those of a push. Workers do not read them before publish.
  void set(const ChunkPlace& place, const std::byte* push, DataType type);
  void publish(const ChunkPlace& place);
  // Begins the moving average with the chunk's parameters.
  void begin_average(const ChunkPlace& place);
  // Returns where the chunk's parameters land when they come from another rack.
  std::byte* landing(const ChunkPlace& place) {
    return published_ + place.home * size_of(wire_type_);
  }
  // Takes the parameters that have landed.
  void adopt(const ChunkPlace& place);
  // Adds a run's parameters to the moving average, if there is one.
  void update_average(const ChunkPlace& place, const Run& run) {
    if (average_ == nullptr) return;
    const std::size_t offset = place.home + run.offset;
    kernels::add_to_average(average_ + offset, parameters_ + offset, average_share_, run.elements);
  }
  // Does the same with all runs of the chunk.
  void average_landed(const ChunkPlace& place);

  DataType wire_type() const { return wire_type_; }
  const std::shared_ptr<JobMemory>& memory() const { return memory_; }

  void copy_to(JobCopy& copy, const ShardChunk& chunk) const;
  void restore(const JobCopy& copy, const ChunkPlace& place);

  RackResiduals residuals;  // the last two of the state's arrays; none: not keeps_rack_rest

 private:
  void find_step(const ShardChunk& chunk);
  // Inlined: it has two callers, and a call of it is some instructions of each update.
  [[gnu::always_inline]] kernels::Update arguments(const ChunkPlace& place, const Run& run,
                                                   std::span<const kernels::Source> sources,
                                                   const Hyper& hyper, float trust) const {
    const std::size_t offset = place.home + run.offset;
    const bool separate_master = wire_type_ != DataType::kFloat32;
    return {.sources = sources,
            .elements = run.elements,
            .rule = rule_,
            .hyper = hyper,
            .weight_decay = run.weight_decay,
            .trust = trust,
            .adaptive = &step_,
            .parameters = parameters_ + offset,
            .state = state_ != nullptr ? state_ + offset : nullptr,
            .state_stride = state_stride_,
            .published = separate_master ? published_ + offset * size_of(wire_type_) : nullptr,
            .published_type = wire_type_};
  }
  std::shared_ptr<JobMemory> memory_;  // has the arrays below
  float* parameters_;
  float* state_;              // null: the rule has none
  float* average_;            // behind the rule's arrays; null: there is none
  float average_share_;       // weight of new parameters in the average
  std::size_t state_stride_;  // elements from one array of the state to the next
  std::byte* published_;
  RuleKind rule_;
  bool is_adaptive_;
  AdaptiveOptions adaptive_;
  kernels::AdaptiveStep step_;  // of the chunk that is being updated
  DataType wire_type_;
  std::vector<Run> runs_;
};

}  // namespace phub::server

#include "server/chunks/chunk/chunk_parameters.h"

#include <cstring>

namespace phub::server {
namespace {

// Returns the first of the two arrays of residuals, behind all other arrays of the state.
float* residual_arrays(const JobLayout& layout, JobMemory& memory) {
  if (!keeps_rack_rest(layout)) return nullptr;
  return memory.optimizer_state() + (state_arrays(layout) - 1) * memory.arena.elements();
}

}  // namespace

ChunkParameters::ChunkParameters(const JobLayout& layout, std::shared_ptr<JobMemory> memory)
    : residuals(residual_arrays(layout, *memory), memory->arena.elements()),
      memory_(std::move(memory)),
      parameters_(memory_->parameters()),
      state_(memory_->optimizer_state()),
      average_(layout.ema_decay > 0.0
                   ? state_ + state_arrays(layout.rule) * memory_->arena.elements()
                   : nullptr),
      average_share_(static_cast<float>(1.0 - layout.ema_decay)),
      state_stride_(memory_->arena.elements()),
      published_(memory_->published->data()),
      rule_(layout.rule),
      is_adaptive_(phub::is_adaptive(layout.rule)),
      adaptive_(layout.adaptive),
      wire_type_(layout.wire_type) {}

ChunkPlace ChunkParameters::add(const JobLayout& layout, const Chunk& chunk) {
  ChunkPlace place{.arena_offset = chunk.arena_offset,
                   .home = memory_->arena.at(chunk.arena_offset),
                   .elements = chunk.elements,
                   .first_run = static_cast<std::uint32_t>(runs_.size())};
  for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
    const Segment& segment = layout.plan->segments[chunk.first_segment + i];
    const float decay = has_parameters(rule_) ? layout.weight_decay[segment.key] : 0.0F;
    if (i > 0 && !needs_whole_keys(rule_) && runs_.back().weight_decay == decay) {
      runs_.back().elements += segment.elements;
    } else {
      runs_.push_back({segment.chunk_offset, segment.elements, decay});
    }
  }
  place.run_count = static_cast<std::uint32_t>(runs_.size()) - place.first_run;
  return place;
}

void ChunkParameters::set(const ChunkPlace& place, const std::byte* push, DataType type) {
  kernels::convert(reinterpret_cast<std::byte*>(parameters_ + place.home), DataType::kFloat32, push,
                   type, place.elements);
}

void ChunkParameters::begin_average(const ChunkPlace& place) {
  if (average_ == nullptr) return;
  std::memcpy(average_ + place.home, parameters_ + place.home, place.elements * sizeof(float));
}

// Snapshots are of fp32 parameters.
void ChunkParameters::adopt(const ChunkPlace& place) {
  if (wire_type_ != DataType::kFloat32) set(place, published(place).data(), wire_type_);
}

void ChunkParameters::average_landed(const ChunkPlace& place) {
  for (std::uint32_t i = 0; average_ != nullptr && i < place.run_count; ++i) {
    update_average(place, runs_[place.first_run + i]);
  }
}

void ChunkParameters::publish(const ChunkPlace& place) {
  if (wire_type_ == DataType::kFloat32) return;  // it is what the rule updates
  kernels::convert(published_ + place.home * size_of(wire_type_), wire_type_,
                   reinterpret_cast<const std::byte*>(parameters_ + place.home), DataType::kFloat32,
                   place.elements);
}

// The first round brought the initial parameters; what a vote left out was no update.
void ChunkParameters::find_step(const ShardChunk& chunk) {
  const std::uint64_t before = chunk.rounds - 1 - chunk.left_out;
  step_ = kernels::adaptive_step(rule_, adaptive_, chunk.hyper.learning_rate, before);
}

void ChunkParameters::copy_to(JobCopy& copy, const ShardChunk& chunk) const {
  const ChunkPlace& place = chunk.place;
  const std::size_t bytes = place.elements * sizeof(float);
  std::memcpy(copy.parameters_at(place.arena_offset), parameters_ + place.home, bytes);
  for (unsigned array = 0; state_ != nullptr && array < copy.state_arrays; ++array) {
    const bool is_rest = residuals.is_there() && array + 1 == copy.state_arrays;
    const float* const from =
        is_rest ? residuals.of(chunk).data() : state_ + array * state_stride_ + place.home;
    std::memcpy(copy.state_at(place.arena_offset, array), from, bytes);
  }
  copy.note_left_out(chunk.left_out);
}

void ChunkParameters::restore(const JobCopy& copy, const ChunkPlace& place) {
  const std::size_t bytes = place.elements * sizeof(float);
  std::memcpy(parameters_ + place.home, copy.parameters_at(place.arena_offset), bytes);
  for (unsigned array = 0; state_ != nullptr && array < copy.state_arrays; ++array) {
    std::memcpy(state_ + array * state_stride_ + place.home,
                copy.state_at(place.arena_offset, array), bytes);
  }
}

}  // namespace phub::server

#include "server/chunks/racks/outer_steps.h"

#include <cstring>

#include "server/job/memory.h"

namespace phub::server {
namespace {

float* array_of(const JobMemory& memory, const JobLayout& layout, unsigned index) {
  const unsigned before = state_arrays(layout.rule, layout.ema_decay);
  return memory.optimizer_state() + (before + index) * memory.arena.elements();
}

}  // namespace

OuterSteps::OuterSteps(const JobLayout& layout, std::vector<ShardChunk>& chunks,
                       ChunkParameters& parameters, RackExchange& exchange, BufferPool& staging)
    : local_(layout.rack_local),
      place_(layout.rack),
      workers_(layout.workers),
      mean_scale_(1.0F / static_cast<float>(layout.job_workers)),
      own_mean_scale_(1.0F / static_cast<float>(layout.workers)),
      chunks_(chunks),
      parameters_(parameters),
      exchange_(exchange),
      staging_(staging),
      own_(parameters.memory()->parameters()),
      together_(array_of(*parameters.memory(), layout, 0)),
      velocity_(array_of(*parameters.memory(), layout, 1)),
      sums_({.most = layout.rack.racks(), .in_order = layout.deterministic}, chunks.size(),
            staging),
      arrived_(chunks.size(), layout.rack.racks()) {
  for (const ShardChunk& chunk : chunks) {
    outer_.push_back({.members = place_.members(chunk.tree)});
  }
}

void OuterSteps::begin(std::uint32_t slot) {
  const std::size_t bytes = chunks_[slot].place.elements * sizeof(float);
  std::memcpy(together_ + home(slot), own_ + home(slot), bytes);
  std::memset(velocity_ + home(slot), 0, bytes);
}

bool OuterSteps::add_own(std::uint32_t slot) {
  std::byte* const data = staging_.take();
  write_difference(slot, reinterpret_cast<float*>(data));
  exchange_.prepare(slot, data, 1.0F);
  return sums_.add(slot, place_.position(chunks_[slot].tree, place_.own()),
                   {.data = data, .staged = true}, outer_[slot], chunks_[slot].place.elements);
}

void OuterSteps::write_difference(std::uint32_t slot, float* difference) const {
  const std::uint32_t elements = chunks_[slot].place.elements;
  const float* const together = together_ + home(slot);
  const float* const own = own_ + home(slot);
  for (std::uint32_t i = 0; i < elements; ++i) difference[i] = together[i] - own[i];
}

PushResult OuterSteps::add(const Push& push, bool& are_all) {
  const ShardChunk& chunk = chunks_[push.slot];
  const std::uint32_t rack = place_.rack_at(push.worker, workers_);
  if (!arrived_.insert(push.slot, rack)) {
    if (push.staged) staging_.give(push.data);
    return PushResult::kDuplicate;
  }
  Contribution difference;
  const PushResult seen = exchange_.read(push, chunk, difference);
  if (seen != PushResult::kAccepted) return seen;
  are_all = sums_.add(push.slot, place_.position(chunk.tree, rack), difference, outer_[push.slot],
                      chunk.place.elements);
  return PushResult::kAccepted;
}

void OuterSteps::finish(std::uint32_t slot) {
  ChunkSum& sum = outer_[slot];
  const std::uint32_t elements = chunks_[slot].place.elements;
  sums_.merge(slot, sum, elements);
  const auto* const all = reinterpret_cast<const float*>(sum.data);
  exchange_.write_down(slot, chunks_[slot].hyper, {all, elements});
  step(slot, all);
  sums_.clear(slot, sum);
  end(slot);
}

void OuterSteps::step(std::uint32_t slot, const float* sum) {
  step_together(slot, sum, place_.racks());
  adopt(slot);
}

void OuterSteps::step_together(std::uint32_t slot, const float* sum, std::uint32_t racks) {
  const ChunkPlace& place = chunks_[slot].place;
  const kernels::Source source{reinterpret_cast<const std::byte*>(sum), DataType::kFloat32};
  kernels::update({.sources = {&source, 1},
                   .elements = place.elements,
                   .rule = RuleKind::kNesterov,
                   .hyper = {.learning_rate = local_.learning_rate,
                             .momentum = local_.momentum,
                             .gradient_scale = 1.0F / static_cast<float>(racks)},
                   .parameters = together_ + place.home,
                   .state = velocity_ + place.home});
}

void OuterSteps::adopt(std::uint32_t slot) {
  const ChunkPlace& place = chunks_[slot].place;
  std::memcpy(own_ + place.home, together_ + place.home, place.elements * sizeof(float));
  parameters_.publish(place);
}

void OuterSteps::move(std::uint32_t slot, const float* by) {
  const ChunkPlace& place = chunks_[slot].place;
  float* const own = own_ + place.home;
  for (std::uint32_t i = 0; i < place.elements; ++i) own[i] += by[i];
  parameters_.publish(place);
}

void OuterSteps::end(std::uint32_t slot) { arrived_.clear(slot); }

}  // namespace phub::server

#include "server/chunks/shard.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "server/chunks/connection.h"
#include "server/job/footprint.h"

namespace phub::server {

using kernels::Source;

Shard::Shard(const JobLayout& shape, std::shared_ptr<JobMemory> memory)
    : worker_counters(shape.workers),
      job_id_(shape.job_id),
      tenant_id_(shape.tenant_id),
      weight_(shape.weight),
      epoch_(shape.epoch),
      workers_(shape.workers),
      wire_type_(shape.wire_type),
      rule_(shape.rule),
      hyper_(shape.hyper),
      deterministic_(shape.deterministic),
      memory_(std::move(memory)) {}

Shard::~Shard() = default;  // here, where connections are known

Result<std::unique_ptr<Shard>> Shard::create(const JobLayout& shape, std::uint32_t core,
                                             std::shared_ptr<JobMemory> memory) {
  std::unique_ptr<Shard> shard(new Shard(shape, std::move(memory)));
  for (const std::uint32_t id : shape.plan->core_chunks[shape.server_index][core]) {
    shard->add_chunk(shape, shape.plan->chunks[id]);
    if (shape.initial) shard->restore(shard->chunks_.back(), *shape.initial);
  }
  if (holds_sums(shape)) shard->create_deferred(shape, core);
  // Worst case: every push of every worker is parked, each connection has a frame on its way, and
  // a sum of 16-bit pushes is being started. A sum that is held takes the place of its pushes.
  const std::size_t count = (shard->chunks_.size() + 2) * shape.workers + 1;
  PHUB_ASSIGN_OR_RETURN(shard->buffers_, BufferPool::create(count, staging_buffer_bytes(shape)));
  shard->arrived_ = WorkerSets(shard->chunks_.size(), shape.workers);
  shard->staging_budget_ = staging_budget(shape);
  shard->connections.resize(shape.workers);
  shard->contributions_.resize(shard->chunks_.size() * shape.workers);
  // Each chunk, a Hyper and a Vote of each worker, at most.
  shard->arrivals = std::make_unique<ArrivalQueue>((shard->chunks_.size() + 2) * shape.workers);
  shard->times = std::make_unique<RoundTimes>(shape.workers, shard->chunks());
  return shard;
}

void Shard::add_chunk(const JobLayout& shape, const Chunk& chunk) {
  ChunkState state;
  state.arena_offset = chunk.arena_offset;
  state.home = memory_->arena.at(chunk.arena_offset);
  state.elements = chunk.elements;
  state.first_run = static_cast<std::uint32_t>(runs_.size());
  state.hyper = hyper_;
  for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
    const Segment& segment = shape.plan->segments[chunk.first_segment + i];
    const float decay = has_parameters(rule_) ? shape.weight_decay[segment.key] : 0.0F;
    if (i > 0 && !needs_whole_keys(rule_) && runs_.back().weight_decay == decay) {
      runs_.back().elements += segment.elements;
    } else {
      runs_.push_back({segment.chunk_offset, segment.elements, decay});
    }
  }
  state.run_count = static_cast<std::uint32_t>(runs_.size()) - state.first_run;
  chunks_.push_back(state);
}

bool Shard::is_ahead(const Connection& connection) const {
  const std::uint64_t margin = std::min(workers_, kChunksAhead);
  return std::any_of(connections.begin(), connections.end(), [&](const auto& other) {
    return other && !other->lost && other->pushes + margin < connection.pushes;
  });
}

// A chunk that is whole has one push of each worker, so those of the slowest that are not in one
// wait for somebody else's.
bool Shard::is_slowest_waiting() const {
  std::uint64_t fewest = UINT64_MAX;
  for (const auto& connection : connections) {
    fewest = std::min(fewest, connection ? connection->pushes : 0);
  }
  return fewest > gathered_;
}

std::uint32_t Shard::push_bytes(std::uint32_t slot) const {
  if (slot >= chunks_.size()) return 0;
  return static_cast<std::uint32_t>(chunks_[slot].elements * size_of(wire_type_));
}

std::span<const std::byte> Shard::reply(std::uint32_t slot) const {
  return {memory_->published->data() + chunks_[slot].home * size_of(wire_type_), push_bytes(slot)};
}

PushResult Shard::on_push(const Push& push) {
  const auto refuse = [&](PushResult result) {
    if (push.staged) give_buffer(push.data);
    return result;
  };
  if (stopped_) return refuse(PushResult::kStopped);
  if (push.slot >= chunks_.size()) return refuse(PushResult::kUnknownChunk);
  if (push.bytes != push_bytes(push.slot)) return refuse(PushResult::kBadLength);
  ChunkState& chunk = chunks_[push.slot];
  // Only pushes that come twice can take every buffer, and a sum may need one.
  if (buffers_->free() == 0) return refuse(PushResult::kDuplicate);
  if (!arrived_.insert(push.slot, push.worker)) return refuse(PushResult::kDuplicate);

  worker_counters[push.worker].pushes.add(1);
  worker_counters[push.worker].bytes_received.add(push.bytes);
  if (push.worker == 0) chunk.hyper = *push.hyper;
  if (has_parameters(rule_) && !chunk.initialised) return initialise(chunk, push);

  Contribution* contributions = contributions_of(push.slot);
  const std::uint32_t position = deterministic_ ? push.worker : chunk.count;
  contributions[position] = {push.data, push.staged};
  ++chunk.count;
  if (chunk.count < workers_) {
    fold(chunk, contributions);
    if (workers_ > kernels::kMaxSources) fold_in_place(chunk, contributions);
    return PushResult::kAccepted;
  }
  if (workers_ > kernels::kMaxSources) fold_many(chunk, contributions);
  ++gathered_;
  if (deferred_ != nullptr) return defer(push.slot);
  copy_if_due(chunk);
  finish(chunk, contributions);
  reset(chunk);
  return PushResult::kCompleted;
}

// The first round of a rule with parameters: worker 0's push is the initial value.
PushResult Shard::initialise(ChunkState& chunk, const Push& push) {
  if (push.worker == 0 && !restored_) {
    kernels::convert(reinterpret_cast<std::byte*>(memory_->parameters() + chunk.home),
                     DataType::kFloat32, push.data, wire_type_, chunk.elements);
  }
  if (push.staged) give_buffer(push.data);
  ++chunk.count;
  if (chunk.count < workers_) return PushResult::kAccepted;
  ++gathered_;
  publish(chunk);
  if (deferred_ != nullptr && deferred_->has_norms) measure_parameters(chunk);
  chunk.initialised = true;
  reset(chunk);
  return PushResult::kCompleted;
}

// Adds the staged contributions that are next in order to the sum, while they are hot.
void Shard::fold(ChunkState& chunk, Contribution* contributions) {
  while (chunk.folded < workers_) {
    Contribution& next = contributions[chunk.folded];
    if (next.data == nullptr || !next.staged) return;
    if (chunk.folded == 0) {
      chunk.sum = next.data;
      chunk.sum_type = wire_type_;
    } else if (chunk.sum_type == DataType::kFloat32) {
      kernels::add(reinterpret_cast<float*>(chunk.sum), {chunk.sum, DataType::kFloat32},
                   {next.data, wire_type_}, chunk.elements);
      give_buffer(next.data);
    } else {
      std::byte* wide = take_buffer();
      kernels::add(reinterpret_cast<float*>(wide), {chunk.sum, chunk.sum_type},
                   {next.data, wire_type_}, chunk.elements);
      give_buffer(next.data);
      give_buffer(chunk.sum);
      chunk.sum = wide;
      chunk.sum_type = DataType::kFloat32;
    }
    next = {};
    ++chunk.folded;
  }
}

// Of a job with more workers than the kernels take sources: pushes in place are added up as soon as
// so many follow each other, for the last push is not to bring the work of all of them.
void Shard::fold_in_place(ChunkState& chunk, Contribution* contributions) {
  constexpr std::uint32_t kAtOnce = kernels::kMaxSources / 2;
  if (workers_ - chunk.folded < kAtOnce) return;
  const Contribution* const first = contributions + chunk.folded;
  const bool are_there = std::all_of(first, first + kAtOnce,
                                     [](const Contribution& push) { return push.data != nullptr; });
  if (are_there) add_up(chunk, contributions, kAtOnce);
}

// Leaves no more than the kernels take sources.
void Shard::fold_many(ChunkState& chunk, Contribution* contributions) {
  while (workers_ - chunk.folded + 1 > kernels::kMaxSources) {
    const auto more = static_cast<std::uint32_t>(kernels::kMaxSources - 1);
    add_up(chunk, contributions, std::min(more, workers_ - chunk.folded));
  }
}

// Adds the next so many contributions to the chunk's sum, which is fp32 then. In their order, so it
// has the bits of one pass over all. REQUIRES: they are there; fewer than kMaxSources.
void Shard::add_up(ChunkState& chunk, Contribution* contributions, std::uint32_t count) {
  std::array<Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  std::size_t filled = 0;
  if (chunk.sum != nullptr) sources[filled++] = {chunk.sum, chunk.sum_type};
  for (std::uint32_t i = chunk.folded; i < chunk.folded + count; ++i) {
    sources[filled++] = {contributions[i].data, wire_type_};
  }
  const bool is_wide = chunk.sum != nullptr && chunk.sum_type == DataType::kFloat32;
  std::byte* const out = is_wide ? chunk.sum : take_buffer();
  kernels::update({.sources = {sources.data(), filled},
                   .elements = chunk.elements,
                   .parameters = reinterpret_cast<float*>(out)});
  if (chunk.sum != nullptr && !is_wide) give_buffer(chunk.sum);
  chunk.sum = out;
  chunk.sum_type = DataType::kFloat32;
  for (; count > 0; --count, ++chunk.folded) {
    Contribution& added = contributions[chunk.folded];
    if (added.staged) give_buffer(added.data);
    added = {};
  }
}

// What is not added up yet, from element `offset` of the chunk on.
std::size_t Shard::sources_of(const ChunkState& chunk, const Contribution* contributions,
                              std::uint32_t offset, std::span<Source> sources) const {
  std::size_t count = 0;
  if (chunk.sum != nullptr) {
    sources[count++] = {chunk.sum + offset * size_of(chunk.sum_type), chunk.sum_type};
  }
  for (std::uint32_t i = chunk.folded; i < workers_; ++i) {
    sources[count++] = {contributions[i].data + offset * size_of(wire_type_), wire_type_};
  }
  return count;
}

void Shard::give_contributions(Contribution* contributions) {
  for (std::uint32_t i = 0; i < workers_; ++i) {
    if (contributions[i].staged) give_buffer(contributions[i].data);
    contributions[i] = {};
  }
}

void Shard::finish(ChunkState& chunk, Contribution* contributions) {
  std::array<Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  const std::size_t wire_bytes = size_of(wire_type_);
  const bool separate_master = wire_type_ != DataType::kFloat32;
  for (std::uint32_t r = 0; r < chunk.run_count; ++r) {
    const DecayRun& run = runs_[chunk.first_run + r];
    const std::size_t count = sources_of(chunk, contributions, run.offset, sources);
    const std::size_t offset = chunk.home + run.offset;
    float* state = memory_->optimizer_state();
    kernels::update(
        {.sources = {sources.data(), count},
         .elements = run.elements,
         .rule = rule_,
         .hyper = chunk.hyper,
         .weight_decay = run.weight_decay,
         .parameters = memory_->parameters() + offset,
         .state = state != nullptr ? state + offset : nullptr,
         .published = separate_master ? memory_->published->data() + offset * wire_bytes : nullptr,
         .published_type = wire_type_});
  }
  if (chunk.sum != nullptr) give_buffer(chunk.sum);
  give_contributions(contributions);
}

void Shard::publish(const ChunkState& chunk) {
  if (wire_type_ == DataType::kFloat32) return;  // `published` is the master
  kernels::convert(memory_->published->data() + chunk.home * size_of(wire_type_), wire_type_,
                   reinterpret_cast<const std::byte*>(memory_->parameters() + chunk.home),
                   DataType::kFloat32, chunk.elements);
}

void Shard::reset(ChunkState& chunk) {
  chunk.count = 0;
  chunk.folded = 0;
  arrived_.clear(static_cast<std::size_t>(&chunk - chunks_.data()));
  chunk.sum = nullptr;
  if (chunk.rounds == 0 && !restored_) elements_touched.add(chunk.elements);
  ++chunk.rounds;
  copy_if_due(chunk);
  chunks_completed.add(1);
}

// The first round of a restored job replies with what was restored, so its number is the
// snapshot's again.
void Shard::restore(ChunkState& chunk, const JobCopy& initial) {
  restored_ = true;
  elements_touched.add(chunk.elements);
  chunk.rounds = initial.round - 1;
  const std::size_t bytes = chunk.elements * sizeof(float);
  std::memcpy(memory_->parameters() + chunk.home, initial.parameters_at(chunk.arena_offset), bytes);
  if (float* state = memory_->optimizer_state(); state != nullptr && initial.state) {
    std::memcpy(state + chunk.home, initial.state_at(chunk.arena_offset), bytes);
  }
}

bool Shard::begin_copy(std::shared_ptr<JobCopy> copy) {
  if (rounds_max() > copy->round) return false;
  for (ChunkState& chunk : chunks_) chunk.copied = false;
  copied_ = 0;
  copy_next_ = 0;
  copy_ticks_ = 0;
  copy_ = std::move(copy);
  return true;
}

std::uint32_t Shard::copy_some(std::uint32_t count) {
  const std::uint32_t enough = copied_ + count;
  for (std::uint32_t seen = 0; seen < chunks() && copied_ < std::min(enough, chunks()); ++seen) {
    copy_if_due(chunks_[copy_next_]);
    copy_next_ = (copy_next_ + 1) % chunks();
  }
  return chunks() - copied_;
}

void Shard::copy_if_due(ChunkState& chunk) {
  if (copy_ == nullptr || chunk.copied || chunk.rounds != copy_->round) return;
  const std::uint64_t start = ticks();
  const std::size_t bytes = chunk.elements * sizeof(float);
  std::memcpy(copy_->parameters_at(chunk.arena_offset), memory_->parameters() + chunk.home, bytes);
  if (const float* state = memory_->optimizer_state(); state != nullptr) {
    std::memcpy(copy_->state_at(chunk.arena_offset), state + chunk.home, bytes);
  }
  chunk.copied = true;
  ++copied_;
  copy_ticks_ += ticks() - start;
}

std::uint64_t Shard::rounds_max() const {
  std::uint64_t rounds = 0;
  for (const ChunkState& chunk : chunks_) rounds = std::max(rounds, chunk.rounds);
  return rounds;
}

}  // namespace phub::server

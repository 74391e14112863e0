// The exchange of racks after several rounds that each made by itself (RackLocal of
// common/base/encoding.h).
//
// Every rack has the parameters that all racks had together last, and the outer momentum. A rack's
// difference from these parameters goes up the chunk's tree as a sum, all racks' sum comes down,
// and each rack makes the outer step with it, so that all have the same bits. Data of a Shard; its
// core's thread only. Nothing allocates after it is made.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "server/chunks/chunk/chunk_parameters.h"
#include "server/chunks/pushes/push_sums.h"
#include "server/chunks/racks/rack_exchange.h"
#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

class OuterSteps {
 public:
  // The last four outlive it.
  OuterSteps(const JobLayout& layout, std::vector<ShardChunk>& chunks, ChunkParameters& parameters,
             RackExchange& exchange, BufferPool& staging);

  // The chunk's round that is under way ends with an exchange.
  bool is_due(const ShardChunk& chunk) const { return chunk.rounds % local_.steps == 0; }
  // A mean over all workers is one over this rack's: 1 / workers of the job becomes 1 / its own.
  Hyper of_rack(Hyper hyper) const {
    if (hyper.gradient_scale == mean_scale_) hyper.gradient_scale = own_mean_scale_;
    return hyper;
  }

  // The chunk has its initial parameters, which all racks have.
  void begin(std::uint32_t slot);
  // Adds this rack's difference. True: those of the racks below are there too.
  bool add_own(std::uint32_t slot);
  // Adds that of a rack below; `are_all` says the same. kAccepted, or what is wrong with the push,
  // whose buffer is given back.
  PushResult add(const Push& push, bool& are_all);
  // Leaves the sum of differences where it is sent up from.
  void write_up(std::uint32_t slot) {
    exchange_.write_up(slot, outer_[slot], sums_);
    end(slot);
  }
  // At the root: the sum goes down, and the outer step is made with it.
  void finish(std::uint32_t slot);
  // Elsewhere: makes the step with all racks' sum, in fp32.
  void step(std::uint32_t slot, const float* sum);

  // ---- The parts of an exchange ----
  // What all racks had together last.
  std::span<const float> together(std::uint32_t slot) const {
    return {together_ + home(slot), chunks_[slot].place.elements};
  }
  void set_together(std::uint32_t slot, std::span<const std::byte> parameters) {
    std::memcpy(together_ + home(slot), parameters.data(), parameters.size());
  }
  // Writes how far this rack is from that.
  void write_difference(std::uint32_t slot, float* difference) const;
  // Makes the outer step with `sum`, the differences of `racks` racks added up.
  void step_together(std::uint32_t slot, const float* sum, std::uint32_t racks);
  // This rack goes on from what racks have together.
  void adopt(std::uint32_t slot);
  // Adds to this rack's parameters.
  void move(std::uint32_t slot, const float* by);

 private:
  void end(std::uint32_t slot);
  std::size_t home(std::uint32_t slot) const { return chunks_[slot].place.home; }

  const RackLocal local_;
  const RackPlace place_;
  const std::uint32_t workers_;  // of this rack
  const float mean_scale_;       // 1 / workers of the job
  const float own_mean_scale_;
  std::vector<ShardChunk>& chunks_;
  ChunkParameters& parameters_;
  RackExchange& exchange_;
  BufferPool& staging_;
  float* const own_;       // this rack's parameters
  float* const together_;  // that all racks had together last; behind the rule's arrays
  float* const velocity_;  // the outer momentum
  PushSums sums_;
  std::vector<ChunkSum> outer_;  // by slot
  WorkerSets arrived_;           // by slot: racks whose differences are there
};

}  // namespace phub::server

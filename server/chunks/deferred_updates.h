// What a Shard keeps for a job whose updates do not come with the last push: which chunks are
// updated together, the norms of rule lars, the workers' votes.
//
// Chunks that are updated together are a group: all chunks of a key under lars, else one chunk. A
// group is due when the sums of all its chunks are there and, if the job votes, all workers have
// voted in its round. Data of the Shard; its core's thread only. Nothing grows after create.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "kernels/lars.h"
#include "server/chunks/worker_sets.h"

namespace phub::server {

// A bounded first-in, first-out queue of groups.
class DueGroups {
 public:
  void reserve(std::size_t groups) { ring_.resize(std::bit_ceil(groups + 1)); }
  bool empty() const { return head_ == tail_; }
  void push(std::uint32_t group) { ring_[tail_++ & (ring_.size() - 1)] = group; }
  std::uint32_t front() const { return ring_[head_ & (ring_.size() - 1)]; }
  void pop() { ++head_; }

 private:
  std::vector<std::uint32_t> ring_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

struct DeferredUpdates {
  static constexpr std::uint32_t kReleasedMax = 16;

  struct Group {
    std::uint32_t first_slot = 0;
    std::uint32_t slots = 0;
    std::uint32_t summed = 0;  // chunks, of the round that is not being released yet
    std::uint32_t first_key = 0;
    std::uint32_t keys = 0;
  };
  // A key's runs are neighbours, in the order of its chunks.
  struct Key {
    std::uint32_t first_run = 0;
    std::uint32_t runs = 0;
    bool plain = false;
    float trust = 1.0F;  // of the round that is being updated; a NaN: the key is left out
  };
  struct Votes {
    std::uint64_t round = 0;   // that they are for: so many rounds each of its chunks has behind it
    std::uint32_t voters = 0;  // so many have voted
    bool decided = false;      // all have voted
    bool overflow = false;     // one of them said so
    float loss_scale = 1.0F;   // all of them
    std::uint32_t chunks_left = 0;  // of the round: neither updated nor skipped
  };

  LossScale scale;
  bool has_norms = false;  // rule lars
  LarsOptions lars;
  std::vector<Group> groups;                 // in order of their slots
  std::vector<std::uint32_t> group_of;       // by slot
  std::vector<Key> keys;                     // lars: in order of their runs
  std::vector<kernels::KeySquares> squares;  // lars: by run
  std::vector<std::uint32_t> key_of_run;     // lars
  std::vector<bool> finite;                  // by slot, else: the held sum
  Votes votes;
  WorkerSets voters{1, 0};  // one set: who has voted in this round
  DueGroups due;
  std::uint32_t updated = 0;            // chunks of the first due group that are done
  std::size_t sums = 0;                 // held now
  std::vector<std::uint32_t> released;  // of the last release
};

}  // namespace phub::server

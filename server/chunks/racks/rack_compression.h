// Of a job whose racks push each other the largest elements of their sums only (HiTopKComm of Shi
// et al., arXiv 2010.10458: dense within a rack, sparse across racks).
//
// Of each rack's own sum the elements that are largest by magnitude stay, with what earlier rounds
// have kept back of them, and the others are kept back where the chunk is summed (error feedback).
// A sum of several racks goes on as it is. What is 0 in a sum does not travel: up it goes as a
// sparse push of fp32 values (common/protocol/sparse_push.h), or whole where that is no larger;
// down comes the round's Hyper, and behind it the sum of all racks in the same form. Each rack
// applies the rule to that: so parameters and state have the same bits everywhere.
// Data of a Shard; its core's thread only. Nothing allocates after it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/rule.h"
#include "common/protocol/sparse_push.h"
#include "server/job/layout.h"

namespace phub::server {

class RackCompression {
 public:
  // `places`: by slot, of a Hyper and the chunk's elements in fp32. They outlive it.
  RackCompression(const JobLayout& layout, std::uint32_t core,
                  const std::vector<std::byte*>& places);

  // Whether some of the chunk's sum is kept back here; small keys' is not.
  bool keeps_back(std::uint32_t slot) const { return chunks_[slot].is_sparse; }
  // Leaves in `sum` what is to go up of this rack's sum, and zeros. `rest` is what earlier rounds
  // kept back of the chunk, and `next` becomes what is kept back now; they may be the same. What is
  // not finite goes up as long as there is room, and is never kept back. `round` says where a run
  // of MSTopK begins.
  void keep_back(std::span<float> sum, std::span<const float> rest, std::span<float> next,
                 std::uint64_t round);

  // What is to be sent of a sum of racks; each stays as it is until the chunk's next one. Down goes
  // the Hyper alone, with an empty sum, where the round's update is left out.
  void write_up(std::uint32_t slot, std::span<const float> sum);
  void write_down(std::uint32_t slot, const Hyper& hyper, std::span<const float> sum);
  // What came from above goes on to the racks below.
  void pass_down(std::uint32_t slot, std::span<const std::byte> reply);
  // Empty: neither was there yet.
  std::span<const std::byte> outgoing(std::uint32_t slot) const {
    return {chunks_[slot].place, chunks_[slot].bytes};
  }

  // Reads a sum into one of all elements. What is wrong with it is found before anything is
  // written. REQUIRES: nobody else writes to the bytes, which are aligned as a u32 is.
  static wire::SparseFault read(std::span<const std::byte> bytes, std::span<float> sum);
  // Whether a sum of so many elements may have so many bytes.
  static bool may_be(std::size_t bytes, std::size_t elements) {
    const std::size_t whole = elements * sizeof(float);
    return bytes > 0 && bytes <= whole;
  }

 private:
  struct Place {
    std::byte* place = nullptr;
    std::uint32_t bytes = 0;  // of what is there
    bool is_sparse = false;
  };
  std::uint32_t write(std::byte* to, std::span<const float> sum);

  const RackCompress options_;
  std::vector<Place> chunks_;           // by slot
  std::vector<std::uint32_t> indices_;  // of a chunk
  std::vector<float> values_;
  std::vector<std::uint32_t> scratch_;  // of the selector
};

}  // namespace phub::server

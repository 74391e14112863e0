// What the servers should have replied, computed on one thread by the product's kernels over the
// pattern's gradients. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/base/pattern.h"
#include "bench/processes/work.h"
#include "common/base/rule.h"

namespace phub::bench {

class Reference {
 public:
  // `key_elements` in order; the index of an element counts through all keys.
  Reference(const Work& work, std::vector<std::uint64_t> key_elements, float weight_decay);

  // Starts from these parameters, for rules that have some. `momentum` must be 0 in the step that
  // follows: the servers' optimizer state is not known here.
  void start(std::vector<float> parameters);

  // One round: what is wrong with `result` (all keys' wire bytes), or nothing.
  std::optional<std::string> step(Pattern pattern, const Hyper& hyper,
                                  std::span<const std::span<const std::byte>> result);

 private:
  void update_tile(Pattern pattern, const Hyper& hyper, std::uint64_t first, std::size_t length);
  std::optional<std::uint64_t> first_difference(std::span<const std::byte> result,
                                                std::uint64_t first, std::size_t length);

  Work work_;
  std::vector<std::uint64_t> key_elements_;
  float weight_decay_;
  std::vector<float> start_;       // of 16-bit runs: the servers' fp32 masters are near them
  std::vector<float> parameters_;  // all elements, or one tile for rules without parameters
  std::vector<float> state_;
  std::vector<std::vector<std::byte>> sources_;  // each worker's tile, in the wire type
  std::vector<std::byte> published_;
};

// A worker's gradient of `round` for elements first_index.. in the wire type.
void fill_wire(std::span<std::byte> out, DataType type, Pattern pattern, std::uint32_t worker,
               std::uint64_t first_index);
// The wire bytes as fp32.
std::vector<float> widen(std::span<const std::byte> bytes, DataType type);

}  // namespace phub::bench

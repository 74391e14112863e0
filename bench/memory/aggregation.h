// Four ways to aggregate a model's gradients and update its parameters in one process:
//   tall   each thread owns chunks and takes all workers' parts of one chunk after another
//   wide   all threads gang up on one tensor after another, each on a slice, and meet after each
//   fused    one pass over the sources applies the rule too (kernels::update)
//   unfused  the first source is copied, the others are added one by one, then comes the optimizer
//
// Belongs to one thread, member 0 of its team.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/compare/commands.h"
#include "bench/memory/team.h"
#include "common/base/status.h"
#include "common/memory/memory.h"
#include "kernels/adaptive.h"

namespace phub::bench {

class Aggregation {
 public:
  // Of these keys. Errors: kResourceExhausted (memory), kInvalidArgument (threads).
  static Result<std::unique_ptr<Aggregation>> create(const AggregateOptions& options,
                                                     std::vector<std::uint64_t> keys);

  // Parameters and state as they were at first.
  void reset();
  // One round over all elements.
  void run(bool tall, bool fused);
  // The same streams by the simplest loop: see roof.h.
  void run_roof();
  std::span<const float> parameters() const { return array(options_.workers); }

 private:
  Aggregation(const AggregateOptions& options, std::vector<std::uint64_t> keys);
  std::span<float> array(unsigned index) const;
  void aggregate(bool fused, std::uint64_t first, std::uint64_t elements);
  void run_tall(bool fused, unsigned member);
  void run_wide(bool fused, unsigned member);

  AggregateOptions options_;
  kernels::AdaptiveStep adaptive_;
  std::vector<std::uint64_t> keys_;  // elements of each tensor
  std::uint64_t stride_ = 0;         // elements from one array to the next
  std::unique_ptr<Mapping> memory_;  // the workers' gradients, parameters, running sum, states
  std::unique_ptr<Team> team_;
};

}  // namespace phub::bench

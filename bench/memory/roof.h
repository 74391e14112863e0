// What memory allows: sums of N arrays into one, and an update with optimizer state, by the
// simplest loop on pinned threads. Nothing here is the product's; it is what the product is
// measured against. As a task it is one of the interleaved systems: a single process that sums on
// all its threads.
//
// Belongs to one thread, which is member 0 of its team.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "bench/base/pattern.h"
#include "bench/base/worker_loop.h"
#include "bench/compare/commands.h"
#include "bench/memory/team.h"
#include "common/base/status.h"
#include "common/memory/memory.h"

namespace phub::bench {

enum class RoofPass : std::uint8_t {
  kSum,      // out = s0 + ... + sN-1: N reads, the read that a store's line needs, one write
  kUpdate,   // a sum, then velocity and parameters updated: kSum and a state stream in and out
  kMoments,  // the same with two states, those of adam: kSum and two streams in and out
  kCopy,     // out = s0
  kTriad,    // out = s0 + 3 s1
};

// An update with so many states, from 0 to 2.
constexpr RoofPass update_pass(unsigned states) {
  if (states == 0) return RoofPass::kSum;
  return states == 1 ? RoofPass::kUpdate : RoofPass::kMoments;
}

class Roof final : public Task {
 public:
  // Errors: kResourceExhausted (memory), kInvalidArgument (threads).
  static Result<std::unique_ptr<Roof>> create(const RoofOptions& options);

  // One pass over all elements by all threads; returns when the last is done.
  void run(RoofPass pass);

  Status fill(std::uint32_t round) override;
  // Updates where there are states, else sums.
  Status iterate() override;
  Result<std::uint64_t> verify(std::uint32_t round) override;  // of a sum

 private:
  explicit Roof(const RoofOptions& options) : options_(options) {}
  std::span<float> array(unsigned index) const;  // the workers', the output, the states
  std::span<float> output() const { return array(options_.workers); }
  Pattern pattern(std::uint32_t round) const {
    return {pattern_modulus(DataType::kFloat32, options_.workers), round};
  }
  void share(RoofPass pass, unsigned member);

  RoofOptions options_;
  std::unique_ptr<Mapping> memory_;
  std::unique_ptr<Team> team_;
};

// The loops over one thread's part of the arrays (roof_kernels.cc). Pure; any thread.
// out[i] = sources[0][i] + ... + sources[count-1][i]
void roof_sum(float* out, const float* const* sources, unsigned count, std::size_t elements);
// The same sum g, then v = 0.9 v + g; w -= 0.01 (g + 0.9 v)
void roof_update(float* parameters, float* state, const float* const* sources, unsigned count,
                 std::size_t elements);
// The same sum g, then m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g g; w -= 0.01 m: adam's streams
// without its root and quotient.
void roof_moments(float* parameters, float* means, float* squares, const float* const* sources,
                  unsigned count, std::size_t elements);
void roof_copy(float* out, const float* source, std::size_t elements);
void roof_triad(float* out, const float* first, const float* second, std::size_t elements);

// The hidden subcommand "roof-worker": as many threads as the work's servers have cores.
Status run_roof_worker(const WorkerHello& hello, const Work& work);

}  // namespace phub::bench

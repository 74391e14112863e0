// What memory allows: sums of N arrays into one, and an update with optimizer state, by the
// simplest loop on pinned threads. Nothing here is the product's; it is what the product is
// measured against.
//
// Belongs to one thread, which is member 0 of its team.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "bench/memory/team.h"
#include "common/base/status.h"
#include "common/memory/memory.h"

namespace phub::bench {

enum class RoofPass : std::uint8_t {
  kSum,     // out = s0 + ... + sN-1: N reads, the read that a store's line needs, one write
  kUpdate,  // a sum, then velocity and parameters updated: kSum and a state stream in and out
  kCopy,    // out = s0
  kTriad,   // out = s0 + 3 s1
};

// Arrays of `elements` that the pass moves between memory and the cores.
unsigned roof_streams(RoofPass pass, unsigned workers);

class Roof {
 public:
  struct Options {
    unsigned workers = 4;        // source arrays, 1 to 64
    std::uint64_t elements = 0;  // fp32
    unsigned threads = 2;
    bool state = false;  // allocate the optimizer state for kUpdate
  };
  // Errors: kResourceExhausted (memory), kInvalidArgument (threads).
  static Result<std::unique_ptr<Roof>> create(const Options& options);
  Roof(const Roof&) = delete;
  Roof& operator=(const Roof&) = delete;

  // One pass over all elements by all threads; returns when the last is done.
  void run(RoofPass pass);

  std::span<float> source(unsigned worker);
  std::span<float> output();

 private:
  explicit Roof(const Options& options) : options_(options) {}
  void share(RoofPass pass, unsigned member);

  Options options_;
  std::unique_ptr<Mapping> memory_;
  std::unique_ptr<Team> team_;
};

}  // namespace phub::bench

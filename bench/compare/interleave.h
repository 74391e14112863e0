// Runs systems block by block in turns (A B C A B C ...), so that a machine whose speed drifts
// treats them alike. Belongs to the bench's main thread.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "bench/compare/systems.h"
#include "common/base/status.h"

namespace phub::bench {

struct BlockPlan {
  unsigned blocks = 7;
  unsigned iterations = 5;  // timed, in each block
  unsigned warm_up = 1;     // before them, not timed
};

inline constexpr std::chrono::milliseconds kBlockTimeout{120'000};

// A line on standard error that is rewritten; silent where that is not a terminal.
class Progress {
 public:
  explicit Progress(std::size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(const std::string& what);

 private:
  std::size_t steps_;
  std::size_t done_ = 0;
  bool shown_;
};

// Exchanges the pattern of `round` and checks the sums; a wrong one is kept in System::failure.
Status verify(System& system, std::uint32_t round,
              std::chrono::milliseconds timeout = kBlockTimeout);

// One block of one system; the seconds of its iterations are appended to System::blocks.
Status run_block(System& system, const BlockPlan& plan,
                 std::chrono::milliseconds timeout = kBlockTimeout);

// Verifies every system's sums, runs the blocks (their seconds are appended to System::blocks),
// verifies again. A wrong sum is kept in System::failure. An iteration's time is from the moment
// the last worker ended the iteration before to the moment the last worker ends this one.
// Errors: of the processes; they end the run.
Status run_blocks(std::span<const std::unique_ptr<System>> systems, const BlockPlan& plan,
                  std::chrono::milliseconds timeout = kBlockTimeout);

}  // namespace phub::bench

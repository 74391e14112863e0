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

// A bar and the time that is left, as far as `share` of the work says: 0 to 1; below 0: unknown.
std::string progress_text(double share, std::chrono::nanoseconds elapsed, const std::string& what);

// A line on standard error that is rewritten, with a bar and an estimate of what is left. Where
// that is not a terminal: silent, or a line for each twentieth of the work.
class Progress {
 public:
  enum class Elsewhere { kSilent, kLines };
  explicit Progress(std::size_t steps, Elsewhere elsewhere = Elsewhere::kSilent);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // The next one begins; the steps are taken to last alike.
  void step(const std::string& what);
  // In place of steps, of work that says itself how far it is.
  void show(double share, const std::string& what);

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t steps_;
  std::size_t begun_ = 0;
  bool is_terminal_;
  bool has_lines_;
  int told_ = -1;  // twentieths
  std::string told_what_;
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

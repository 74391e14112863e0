// Takes a consistent copy of a running job, in steps between which the job and its server go on.
//
// Every chunk is copied when the same number of rounds is behind it, by its own core: as it
// completes that round, before its next update, or, if it rests there, a few at a time. Used by one
// control thread; a step needs the jobs to stay (the data plane's mutex).
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "server/core/core.h"
#include "server/job/copy.h"
#include "server/plane/data_plane.h"

namespace phub::server {

class JobCopying {
 public:
  // `round` 0: the earliest that can be had. Errors: kFailedPrecondition if the rule keeps no
  // parameters; kResourceExhausted for want of memory. Allocates and touches the copy's memory.
  static Result<std::unique_ptr<JobCopying>> create(const JobLayout& shape, std::uint64_t round,
                                                    std::chrono::milliseconds timeout);

  // True: the copy is whole. An error ends it. REQUIRES: `on_cores` are the job's, by core.
  Result<bool> step(const std::vector<std::unique_ptr<Core>>& cores,
                    const std::vector<std::unique_ptr<JobOnCore>>& on_cores);

  // Gives the copy up. REQUIRES: as step.
  static void end(const std::vector<std::unique_ptr<Core>>& cores,
                  const std::vector<std::unique_ptr<JobOnCore>>& on_cores);

  // How long to leave the cores alone after a step: longer and longer while nothing comes of it, as
  // when the round is far off.
  std::chrono::microseconds rest() const { return rest_; }
  static constexpr std::chrono::microseconds kRestMax{20'000};

  CopiedJob result() const;

 private:
  static constexpr std::chrono::microseconds kRestMin{500};

  JobCopying(const JobLayout& shape, std::uint64_t round, std::chrono::milliseconds timeout)
      : shape_(shape),
        asked_round_(round),
        timeout_(timeout),
        deadline_(std::chrono::steady_clock::now() + timeout) {}
  Result<bool> begin(const std::vector<std::unique_ptr<Core>>& cores,
                     const std::vector<std::unique_ptr<JobOnCore>>& on_cores);
  std::uint64_t rounds_max(const std::vector<std::unique_ptr<Core>>& cores,
                           const std::vector<std::unique_ptr<JobOnCore>>& on_cores) const;

  JobLayout shape_;
  std::uint64_t asked_round_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point deadline_;
  std::shared_ptr<JobCopy> copy_;
  bool begun_ = false;
  std::chrono::microseconds rest_ = kRestMin;
  std::uint32_t left_ = 0;    // chunks, after the last step
  std::uint64_t margin_ = 0;  // rounds beyond the furthest chunk; 0: where it is now
  std::uint64_t pause_ticks_ = 0;
};

}  // namespace phub::server

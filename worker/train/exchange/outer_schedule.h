// When a worker that makes local steps exchanges what: of the keys' fragments each in its turn.
//
// A fragment is a contiguous part of the keys. Fragment f is exchanged with the step after which
// (steps + f * H / F) mod H == 0, for H local steps and F fragments: so 1/F of the keys at a time.
// What is pushed with step s is taken before the forward pass of step s + 1 + overlap_steps. With
// the last step of the training everything is exchanged and taken, so that all workers end with the
// same parameters. A value; pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/plan/plan.h"

namespace phub::train {

struct OuterScheduleOptions {
  std::uint32_t local_steps = 1;    // H, from one exchange of a key to the next
  std::uint32_t fragments = 1;      // F, at most H
  std::uint32_t overlap_steps = 0;  // below H
};

class OuterSchedule {
 public:
  explicit OuterSchedule(const OuterScheduleOptions& options) : options_(options) {
    PHUB_CHECK(options.fragments > 0 && options.fragments <= options.local_steps &&
                   options.overlap_steps < options.local_steps,
               "a key is taken before it is pushed again, and each fragment has a step");
  }

  // One past the training's last step.
  void set_end(std::uint64_t end) { end_ = end; }

  bool is_last(std::uint64_t step) const { return step + 1 == end_; }
  bool is_exchanged(std::uint32_t fragment, std::uint64_t step) const {
    const std::uint64_t offset =
        std::uint64_t{fragment} * options_.local_steps / options_.fragments;
    return step < end_ && (is_last(step) || (step + 1 + offset) % options_.local_steps == 0);
  }
  // Whether what was pushed with step `pushed` is taken before the forward pass of `step`.
  bool is_due(std::uint64_t pushed, std::uint64_t step) const {
    return step >= end_ || step > pushed + options_.overlap_steps;
  }

 private:
  OuterScheduleOptions options_;
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();
};

// The fragment of each key, in ascending order and of about the same size. Keys that share a chunk
// are in one fragment, since a chunk is sent when all of its keys are pushed; of keys that are
// larger than their part some fragments stay empty. `plan_input`'s servers make no difference.
// Errors: make_plan's.
Result<std::vector<std::uint32_t>> fragments_of(const PlanInput& plan_input,
                                                std::uint32_t fragments);

}  // namespace phub::train

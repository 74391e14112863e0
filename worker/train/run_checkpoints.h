// The checkpoints of one run: which worker writes what, when, and which of them stay.
//
// Worker 0 writes the model, or, without it, the lowest worker that was not lost. Each worker
// writes the residual of its gradients. Owned and called by the trainer's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "worker/train/checkpoints/kept_checkpoints.h"
#include "worker/train/exchange/residuals.h"
#include "worker/train/session.h"
#include "worker/train/trainer.h"

namespace phub::train {

struct RunParts {
  nn::Executor& network;
  GradientExchange& exchange;
  const Trainer& trainer;
};

class RunCheckpoints {
 public:
  // All outlive it.
  RunCheckpoints(const SessionOptions& options, const RunParts& parts, std::uint64_t first_step);

  // Whether this worker writes the model.
  bool are_written() const;

  // That of step `next_step`; nothing happens without a path, or where it is written already.
  // REQUIRES: no key is under way.
  Status write(std::uint64_t next_step);
  // The accuracy on the test images, from 0 to 1, after the trainer's last step: the best so far is
  // written, where that is wanted. REQUIRES: no key is under way.
  Status judge(double test_accuracy);

 private:
  Status write_model(std::uint64_t next_step);

  const SessionOptions& options_;
  RunParts parts_;
  LastCheckpoints last_;
  ResidualFiles residuals_;
  double best_;                                            // negative: there is none
  std::optional<std::pair<std::uint64_t, bool>> written_;  // the step, and whether with its model
};

}  // namespace phub::train

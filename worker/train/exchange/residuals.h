// What a worker keeps back of its gradients (train.compress), beside the checkpoint of its step.
//
// Each worker has a file of its own, in the folder of the checkpoint on its own host: nobody else
// has what is in it. Safetensors, with the rest and the velocity of each parameter that is not
// pushed whole, how often it was pushed, and the loss scale of both where workers vote on one.
// Belongs to the trainer's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/train/exchange/gradient_exchange.h"

namespace phub::train {

// "model.safetensors", 90, 1 -> "model.residual-90.worker-1.safetensors".
std::filesystem::path residual_path(const std::filesystem::path& checkpoint,
                                    std::uint64_t next_step, std::uint32_t worker);

// Whether anything is kept back at all.
bool keeps_back(const nn::Executor& network, GradientExchange& exchange);

class ResidualFiles {
 public:
  // The files of checkpoints that are called `checkpoint`, of which the last `count` stay. The
  // other two outlive it. `first_step`: of the run, which may have gone on from a file that can be
  // removed later.
  ResidualFiles(std::filesystem::path checkpoint, std::uint32_t count, const nn::Executor& network,
                GradientExchange& exchange, std::uint64_t first_step);

  // Nothing where nothing is kept back. At least two files stay, and one more than checkpoints do:
  // only worker 0 knows whether the checkpoint of this step will be written. REQUIRES: every key
  // has been waited for.
  Status save(std::uint64_t next_step);

 private:
  const std::filesystem::path checkpoint_;
  const std::size_t files_max_;
  const nn::Executor& network_;
  GradientExchange& exchange_;
  std::deque<std::uint64_t> steps_;  // of the files that are there
};

// A run goes on at `next_step`, from `checkpoint`, or, if that is empty, from nothing that has a
// residual: the warm-up is as far. A checkpoint "NAME.step-STEP" has the residuals of NAME. Returns
// why it goes on without what was kept back, in words; empty: it has it, or there is nothing.
// REQUIRES: exchange.initialise() succeeded, and nothing was pushed since. Errors: a file that is
// there and cannot be read.
Result<std::string> resume_residuals(const std::filesystem::path& checkpoint,
                                     const nn::Executor& network, GradientExchange& exchange,
                                     std::uint64_t next_step);

}  // namespace phub::train

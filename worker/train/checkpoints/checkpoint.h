// A training run on disk: parameters and running statistics under their PyTorch names, where the
// run was, and, where it lives in this process, the optimizer's state.
//
// Two safetensors files. The one that is asked for has exactly the tensors of the model, so that
// PyTorch loads it as it is. Momentum is in a second one beside it, since it is no tensor of the
// model; its name has the step, so that a process that dies at any time leaves a pair that belongs
// together. Where servers keep the momentum there is no second file: a snapshot of the job holds
// it. Functions, called by the trainer's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "worker/nn/executor.h"
#include "worker/train/exchange/gradient_exchange.h"

namespace phub::train {

struct RunPosition {
  std::string model;
  std::uint64_t seed = 0;
  std::uint64_t next_step = 0;
  float loss_scale = 0.0F;       // of the next step, where it is dynamic; 0: it is not
  std::uint32_t good_steps = 0;  // behind that scale
  std::uint64_t samples = 0;     // of the training set; 0: not known
  std::uint64_t used = 0;        // of their stream (common/samples), by the steps before next_step
  std::string snapshots = {};    // of the job at the servers, of the same step; empty: none
  double test_accuracy = -1.0;   // from 0 to 1, where it is known
};

// "model.safetensors", 90 -> "model.optimizer-90.safetensors".
std::filesystem::path optimizer_path(const std::filesystem::path& checkpoint,
                                     std::uint64_t next_step);

// Takes the place of an earlier checkpoint of that name. REQUIRES: no key is under way.
Status save_checkpoint(const std::filesystem::path& path, nn::Executor& network,
                       GradientExchange& exchange, const RunPosition& position);

// Where the run of a checkpoint was; its tensors are not read. Errors: those of the file.
Result<RunPosition> read_position(const std::filesystem::path& path);

// Puts the parameters into the exchange's gradient arrays, for initialise, and the statistics into
// the network; nothing else of the file is asked for, so that it may be PyTorch's. Errors name the
// file and the tensor that is missing, unknown or of another shape.
Status load_model(const std::filesystem::path& path, nn::Executor& network,
                  GradientExchange& exchange);

// The same, and where the run was.
Result<RunPosition> load_checkpoint(const std::filesystem::path& path, nn::Executor& network,
                                    GradientExchange& exchange);

// The optimizer's state beside the checkpoint of step `next_step`. REQUIRES: it lives in this
// process, and load_checkpoint came before. Errors name the file, and what is wrong with it: one
// that is of other parameters than the checkpoint's is refused.
Status load_optimizer(const std::filesystem::path& checkpoint, nn::Executor& network,
                      GradientExchange& exchange, std::uint64_t next_step);

}  // namespace phub::train

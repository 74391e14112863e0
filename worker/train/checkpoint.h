// A training run on disk: parameters and running statistics under their PyTorch names, and where
// the run was.
//
// The optimizer's momentum lives at the servers and is not in it: a resumed run starts with none.
// Functions, called by the trainer's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/status.h"
#include "common/safetensors.h"
#include "worker/nn/program.h"
#include "worker/train/exchanger.h"

namespace phub::train {

struct RunPosition {
  std::string model;
  std::uint64_t seed = 0;
  std::uint64_t next_step = 0;
  float loss_scale = 0.0F;       // of the next step, where it is dynamic; 0: it is not
  std::uint32_t good_steps = 0;  // behind that scale
};

// REQUIRES: no key is under way.
Status save_checkpoint(const std::filesystem::path& path, nn::Program& network,
                       const Exchanger& exchanger, const RunPosition& position);

// Puts the parameters into the exchanger's gradient arrays, for initialise, and the statistics into
// the network. Errors name the tensor that is missing or has another shape.
Result<RunPosition> load_checkpoint(const std::filesystem::path& path, nn::Program& network,
                                    Exchanger& exchanger);

}  // namespace phub::train

// Checkpoints that stay beside the newest one: the last few, and the best.
//
// "model.safetensors" is the newest. "model.step-90.safetensors" is one of the last, and has its
// momentum beside it as any checkpoint has. "model.best.safetensors" is the best on the test
// images. Belongs to worker 0's trainer thread.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <vector>

#include "common/base/status.h"

namespace phub::train {

// "model.safetensors", 90 -> "model.step-90.safetensors".
std::filesystem::path step_path(const std::filesystem::path& checkpoint, std::uint64_t next_step);
// "model.safetensors" -> "model.best.safetensors".
std::filesystem::path best_path(const std::filesystem::path& checkpoint);

// The newest checkpoint and the last ones that stay, those of the most steps first, as far as they
// are there.
std::vector<std::filesystem::path> checkpoints_there(const std::filesystem::path& checkpoint);

class LastCheckpoints {
 public:
  // The last `count` stay, with those that an earlier run left up to `first_step`, where this one
  // goes on. 0: none.
  LastCheckpoints(std::filesystem::path checkpoint, std::uint32_t count, std::uint64_t first_step);

  // The checkpoint of this step was written: it stays, and the oldest goes. Errors name the file.
  Status keep(std::uint64_t next_step);

 private:
  const std::filesystem::path checkpoint_;
  const std::uint32_t count_;
  std::deque<std::uint64_t> steps_;  // of the files that are there
};

// The accuracy that a best checkpoint up to step `first_step` has, from 0 to 1; negative: there is
// none.
double accuracy_of_best(const std::filesystem::path& checkpoint, std::uint64_t first_step);

}  // namespace phub::train

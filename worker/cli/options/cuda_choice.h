// The command line's options for the backend `cuda`, and where its parts are on this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/backends.h"

namespace phub {

struct CudaChoice {
  std::optional<std::uint32_t> device;
  std::vector<std::uint32_t> devices;  // instead
  std::string plugin, libraries, engine_cache;
  std::string fusion;  // empty: tuned
  bool unrecorded = false, tune = false;
  std::uint32_t plan_threads = 0;
};

void add_cuda_options(CLI::App& command, CudaChoice& choice);

// Errors: kInvalidArgument where what is for GPUs would be ignored.
Status check_cuda_choice(const CudaChoice& choice, bool is_cuda);

// Notes go to the standard error, and so does a line of progress if that is a terminal.
train::CudaOptions cuda_options(const CudaChoice& choice, std::uint32_t device);

}  // namespace phub

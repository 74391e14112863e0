// `phub-worker tune`: measures what runs a network fastest, once for a machine: cuDNN's engines on
// a GPU, the implementations of convolutions on a CPU. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "worker/cli/options/cuda_choice.h"
#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/kernel_arguments.h"
#include "worker/cli/options/model_choice.h"

namespace phub {

struct TuneArguments {
  ModelChoice choice;
  CudaChoice cuda;
  KernelArguments kernels;
  std::string backend = "cuda";
  std::uint32_t batch = 256;
  std::uint32_t threads = 1;
  std::string compute_type;  // empty: the backend's usual one
  bool json = false;
};

CLI::App* add_tune_command(CLI::App& app, TuneArguments& arguments);

// Returns the process' exit status.
Ending tune_command(const TuneArguments& arguments);

}  // namespace phub

// `phub-worker bench`: how fast this machine trains a network, alone. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/cli/options/cuda_choice.h"
#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/kernel_arguments.h"
#include "worker/cli/options/model_choice.h"
#include "worker/train/measure/step_bench.h"

namespace phub {

struct BenchArguments {
  ModelChoice choice;
  train::StepBenchOptions options;
  CudaChoice cuda;
  KernelArguments kernels;
  std::string backend = "onednn";
  std::string compute_type;  // empty: the backend's best
  // Through servers: none, in this process.
  std::vector<std::string> servers;
  std::string job = "bench", wire_type = "fp32", transport = "auto";
  std::uint32_t workers = 1;
  bool json = false;
};

// The sub-command's options.
CLI::App* add_bench_command(CLI::App& app, BenchArguments& arguments);

// Prints the times; returns the process' exit status.
Ending bench_command(BenchArguments arguments);

}  // namespace phub

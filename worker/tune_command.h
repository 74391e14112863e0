// `phub-worker tune`: measures cuDNN's engines for a network, once for a GPU and a version of
// cuDNN. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "worker/cuda_choice.h"
#include "worker/model_choice.h"

namespace phub {

struct TuneArguments {
  ModelChoice choice;
  CudaChoice cuda;
  std::uint32_t batch = 256;
  std::string compute_type = "fp16";
};

CLI::App* add_tune_command(CLI::App& app, TuneArguments& arguments);

// Returns the process' exit status.
int tune_command(const TuneArguments& arguments);

}  // namespace phub

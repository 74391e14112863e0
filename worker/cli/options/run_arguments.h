// What the command line of a run is: the configuration's file and what overrides its fields.
//
// Functions of main's thread.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/config.pb.h"
#include "worker/cli/options/cuda_choice.h"
#include "worker/cli/options/kernel_arguments.h"

namespace phub {

struct RunArguments {
  std::string config_path;
  WorkerConfig overrides;  // the fields that options give
  std::vector<std::string> servers;
  std::string racks;  // "NAME:WORKERS,NAME:WORKERS"
  bool local = false;
  std::string credentials;
  std::optional<std::string> loss_scale;
  CudaChoice cuda;
  KernelArguments kernels;
};

// The arguments outlive the parsing.
// --server, --local, --job ...
void add_exchange_options(CLI::App& command, RunArguments& arguments);
// --data, --batch, --backend, --device ...
void add_compute_options(CLI::App& command, RunArguments& arguments);
// --epochs, --checkpoint ...
void add_training_options(CLI::App& command, RunArguments& arguments);

// The configuration with the overrides, checked. Errors: kInvalidArgument or kNotFound, with the
// file's place or the option, the field and the cure.
Result<WorkerConfig> load_run(const RunArguments& arguments);

// The same for a configuration that is not in a file.
Result<WorkerConfig> override_run(WorkerConfig config, const RunArguments& arguments);

}  // namespace phub

// What the command line of a run is: the configuration's file and what overrides its fields.
//
// Functions of main's thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
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
  std::vector<std::string> servers;
  std::optional<std::string> job, transport, wire_type, data, metrics, tensorboard, checkpoint,
      resume, log_level, tenant, loss_scale, compute_type, backend;
  std::string credentials;
  std::optional<std::int32_t> index;
  std::optional<std::uint32_t> workers, epochs, max_steps, batch, threads, accumulate,
      checkpoint_steps;
  std::optional<std::uint64_t> seed;
  CudaChoice cuda;
  KernelArguments kernels;
  bool local = false;
  bool restart_momentum = false;
  bool snapshot = false;
};

// Adds options whose values are in the order (name, variable, type, text).
template <typename T>
CLI::Option* add_override(CLI::App& command, const char* name, std::optional<T>& value,
                          const char* type, const char* text) {
  return command.add_option(name, value, text)->type_name(type);
}

// --server, --local, --job ...: with whom a run exchanges, and how.
void add_exchange_options(CLI::App& command, RunArguments& arguments);
// --data, --batch, --backend, --device ...: of one worker.
void add_compute_options(CLI::App& command, RunArguments& arguments);
// --epochs, --checkpoint ...: of a training.
void add_training_options(CLI::App& command, RunArguments& arguments);

// The configuration with the overrides, checked. Errors: kInvalidArgument or kNotFound, with the
// file's place or the option, the field and the cure.
Result<WorkerConfig> load_run(const RunArguments& arguments);

// The same for a configuration that is not in a file.
Result<WorkerConfig> override_run(WorkerConfig config, const RunArguments& arguments);

}  // namespace phub

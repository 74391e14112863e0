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

// With whom a run exchanges, and how.
struct ExchangeArguments {
  std::vector<std::string> servers;
  bool local = false;
  std::optional<std::string> job, transport, wire_type, log_level, tenant;
  std::optional<std::uint32_t> workers;
  std::optional<std::int32_t> index;
  std::string credentials;
};

// Of one worker.
struct ComputeArguments {
  std::optional<std::string> data, compute_type, backend;
  std::optional<std::uint32_t> batch, threads;
  CudaChoice cuda;
  KernelArguments kernels;
};

// Of a training.
struct TrainingArguments {
  std::optional<std::uint32_t> epochs, max_steps, accumulate, checkpoint_steps;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> loss_scale, metrics, tensorboard, checkpoint, resume;
  bool restart_momentum = false;
  bool snapshot = false;
};

struct RunArguments {
  std::string config_path;
  ExchangeArguments exchange;
  ComputeArguments compute;
  TrainingArguments training;
};

// Adds options whose values are in the order (name, variable, type, text).
template <typename T>
CLI::Option* add_override(CLI::App& command, const char* name, std::optional<T>& value,
                          const char* type, const char* text) {
  return command.add_option(name, value, text)->type_name(type);
}

// --server, --local, --job ...
void add_exchange_options(CLI::App& command, ExchangeArguments& arguments);
// --data, --batch, --backend, --device ...
void add_compute_options(CLI::App& command, ComputeArguments& arguments);
// --epochs, --checkpoint ...
void add_training_options(CLI::App& command, TrainingArguments& arguments);

// The configuration with the overrides, checked. Errors: kInvalidArgument or kNotFound, with the
// file's place or the option, the field and the cure.
Result<WorkerConfig> load_run(const RunArguments& arguments);

// The same for a configuration that is not in a file.
Result<WorkerConfig> override_run(WorkerConfig config, const RunArguments& arguments);

}  // namespace phub

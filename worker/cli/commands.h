// The sub-commands of phub-worker. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "worker/cli/options/exit_status.h"

namespace phub {

struct Command {
  const CLI::App* app;
  std::function<Ending()> run;  // after the parsing; prints what was asked for
};

// Trains the network that a configuration describes.
Command add_train_command(CLI::App& app);
// How well a checkpoint does on the test images.
Command add_eval_command(CLI::App& app);
// What a checkpoint says of images.
Command add_predict_command(CLI::App& app);
// Where a training step goes.
Command add_profile_command(CLI::App& app);
// Looks at networks.
Command add_model_command(CLI::App& app);
// How fast this machine trains a network, alone.
Command add_bench_command(CLI::App& app);
// Measures what runs a network fastest, once for a machine: cuDNN's engines on a GPU, the
// implementations of convolutions on a CPU.
Command add_tune_command(CLI::App& app);

// Looks at, checks, packs and measures data sets.
Command add_data_command(CLI::App& app);
// Looks at, verifies and removes copies of images that trainings keep (data.cache).
Command add_cache_command(CLI::App& app);

// Examples of train, for the program's help too.
extern const char* const kTrainExamples;

}  // namespace phub

// `phub-worker train`: trains the network that a configuration describes. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>

#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/run_arguments.h"

namespace phub {

struct TrainArguments {
  RunArguments run;
  bool check_only = false;
  bool verbose = false;
};

// The sub-command's options.
CLI::App* add_train_command(CLI::App& app, TrainArguments& arguments);

// Trains; returns the process' exit status.
Ending train_command(const TrainArguments& arguments);

// Examples of the sub-command, for the program's help too.
extern const char* const kTrainExamples;

}  // namespace phub

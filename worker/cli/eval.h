// `phub-worker eval`: how well a checkpoint does on the test images. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/run_arguments.h"

namespace phub {

struct EvalArguments {
  RunArguments run;
  std::string checkpoint;  // empty: the configuration's
  std::string logits;      // empty: they are not written
  bool json = false;
};

// The sub-command's options.
CLI::App* add_eval_command(CLI::App& app, EvalArguments& arguments);

// Evaluates and prints; returns the process' exit status.
Ending eval_command(EvalArguments arguments);

}  // namespace phub

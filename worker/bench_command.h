// `phub-worker bench`: how fast this machine trains a network, alone. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "worker/model_choice.h"
#include "worker/train/step_bench.h"

namespace phub {

struct BenchArguments {
  ModelChoice choice;
  train::StepBenchOptions options;
  std::string backend = "onednn";
  std::string compute_type = "fp32";
  bool json = false;
};

// The sub-command's options.
CLI::App* add_bench_command(CLI::App& app, BenchArguments& arguments);

// Prints the times; returns the process' exit status.
int bench_command(const BenchArguments& arguments);

}  // namespace phub

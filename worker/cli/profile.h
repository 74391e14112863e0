// `phub-worker profile`: where a training step goes. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/run_arguments.h"

namespace phub {

struct ProfileArguments {
  RunArguments run;
  std::string what;  // a model's name or a configuration's file
  std::string trace;
  std::uint32_t steps = 10;
  std::uint32_t warm_up = 2;
  double peak_gflops = 0.0;  // 0: measured
  bool json = false;
};

// The sub-command's options.
CLI::App* add_profile_command(CLI::App& app, ProfileArguments& arguments);

// Prints the profile; returns the process' exit status.
Ending profile_command(const ProfileArguments& arguments);

}  // namespace phub

// `phub-worker model`: looks at networks. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/model_choice.h"

namespace phub {

struct ModelArguments {
  ModelChoice choice;
  bool list = false, json = false, textproto = false, segments = false;
  std::uint32_t batch = 1;
  std::string wire_type = "fp32";
  std::uint32_t chunk_kib = 32;
};

// The sub-command's options.
CLI::App* add_model_command(CLI::App& app, ModelArguments& arguments);

// Prints what was asked for; returns the process' exit status.
Ending model_command(const ModelArguments& arguments);

}  // namespace phub

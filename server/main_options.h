// What phub-server is told at its start: options, over what a file says.
//
// Pure functions; the caller's thread.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/config.pb.h"

namespace phub::server {

struct CommandLine {
  std::string config_path;
  ServerConfig given;  // what options say: over what the file says
  std::optional<std::string> credentials;
  std::optional<std::string> rack_credentials;
  std::vector<std::string> transports;
  bool reset_admin_token = false;
  bool check_only = false;
};

// `line` outlives the app.
void declare(CLI::App& app, CommandLine& line);

// Errors name the option, or the file and its field.
Result<ServerConfig> configuration(const CommandLine& line);

}  // namespace phub::server

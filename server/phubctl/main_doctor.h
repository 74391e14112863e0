// The command line of `phubctl doctor`.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "common/base/status.h"

namespace phub::phubctl {

using LocalCommand = std::function<Status()>;  // asks no server

// `as_json` and `credentials` (a folder, or empty) are read when `command` runs; they outlive both.
void declare_doctor(CLI::App& app, const bool& as_json, const std::string& credentials,
                    LocalCommand& command);

}  // namespace phub::phubctl

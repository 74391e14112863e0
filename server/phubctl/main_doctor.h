// The command line of `phubctl doctor`.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "common/base/status.h"

namespace phub::phubctl {

using LocalCommand = std::function<Status()>;  // asks no server

// `as_json` is read when `command` runs; it outlives both.
void declare_doctor(CLI::App& app, const bool& as_json, LocalCommand& command);

}  // namespace phub::phubctl

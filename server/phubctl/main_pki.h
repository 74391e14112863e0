// The command line of `phubctl pki`, which asks no server.
//
// One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "server/phubctl/main_doctor.h"

namespace phub::phubctl {

void declare_pki(CLI::App& app, const bool& as_json, LocalCommand& command);

}  // namespace phub::phubctl

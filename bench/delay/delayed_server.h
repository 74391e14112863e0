// A phub-server whose tcp sends leave later, in a process of the bench. Main thread.
#pragma once

#include <chrono>
#include <string>

#include "common/base/status.h"

namespace phub::bench {

// Serves as `phub-server --config config_path` does, until a signal. Errors: as there.
Status run_delayed_server(std::chrono::microseconds delay, const std::string& config_path);

}  // namespace phub::bench

// How the sub-commands of phub-worker end.
#pragma once

#include <string>

#include "common/base/status.h"

namespace phub {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Prints "phub-worker: MESSAGE" to standard error and returns `exit_code`.
int fail(const Status& status, int exit_code);

// The same with kExitUsage for what was asked for wrongly (kInvalidArgument), else kExitFailed.
int fail(const Status& status);

// Of this process, gRPC's included. `level`: as in a configuration.
void set_up_logging(const std::string& level);

}  // namespace phub

// How the sub-commands of phub-worker end.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// What a sub-command returns: nothing is wrong, or an error that main says.
struct [[nodiscard]] Ending {
  int exit_code = 0;
  Status error = {};
};

inline Ending fail(const Status& status, int exit_code) { return {exit_code, status}; }

// With kExitUsage for what was asked for wrongly (kInvalidArgument), else kExitFailed.
Ending fail(const Status& status);

// Says the error on standard error, if there is one, and returns the exit code.
int say(const Ending& ending, bool as_json);

// A line on standard error that is no error.
void print_note(std::string_view note);

// Of this process, gRPC's included. `level`: as in a configuration.
void set_up_logging(const std::string& level);

}  // namespace phub

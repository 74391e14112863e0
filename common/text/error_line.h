// An error as a program says it, for people or for other programs.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub {

// One line without its end: "PROGRAM: MESSAGE", or {"error":{"code":...,"message":...}} with the
// code's name.
std::string error_line(std::string_view program, const Status& error, bool as_json);

// Whether --json is among the words: before it is known whether the command line is understood.
bool asks_for_json(int argc, const char* const* argv);

}  // namespace phub

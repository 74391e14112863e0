// The racks of a job as one word: "a:4,b:4".
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"

namespace phub {

// At least two racks, each once, with a worker or more. Error: kInvalidArgument.
Result<std::vector<RackSpec>> parse_racks(std::string_view text);

// The same word; empty for a job of one rack.
std::string text_of(const std::vector<RackSpec>& racks);

}  // namespace phub

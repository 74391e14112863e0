// The rounds of a job that really ran, from a file of `phubctl trace`: what a prediction is
// compared with.
//
// Pure functions; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::bench::simulate {

struct MeasuredRounds {
  double seconds = 0.0;    // from one round's first push to the next one's: the median
  std::size_t rounds = 0;  // that the median is of: those that the next one follows, later
};

// Errors: kInvalidArgument for another file, or one with fewer than two rounds in a row.
Result<MeasuredRounds> parse_rounds(std::string_view text, const std::string& name);
Result<MeasuredRounds> read_rounds(const std::string& path);

}  // namespace phub::bench::simulate

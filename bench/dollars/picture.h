// The comparison as a picture (SVG, one file).
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "bench/dollars/report.h"

namespace phub::bench {

// Lines over the axis, with the break-evens, one under the other for each curve; bars where there
// is no curve. Each line and bar says whether its throughput was measured or predicted.
std::string svg_of(const DollarsResult& result);

}  // namespace phub::bench

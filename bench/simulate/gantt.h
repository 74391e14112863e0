// A picture of one iteration: a lane for the input, one for the computation, one for the exchange.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "bench/simulate/schedule.h"

namespace phub::bench::simulate {

// One SVG document that names nothing outside itself. Time runs from the beginning of backward to
// the end of the next iteration's forward; a bar's title has its layer, its beginning and length.
std::string gantt_svg(const Iteration& iteration, const std::string& title);

}  // namespace phub::bench::simulate

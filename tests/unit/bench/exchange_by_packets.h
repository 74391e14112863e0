// The shapes of an exchange, played packet by packet: sends, sums and replies, without a formula.
#pragma once

#include "bench/simulate/shapes.h"

namespace phub::bench::simulate {

// Seconds of one message. `bytes` are whole chunks. Shapes: all but kMeasured and kLink.
double played(Shape shape, const Network& network, double bytes);

}  // namespace phub::bench::simulate

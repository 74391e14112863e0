// How long a round would take if its links were all that there is: its packets, sent one by one.
//
// Each way of a link is a queue that serves packets in the order in which they come. A packet of b
// bytes that comes at t leaves a link of rate B at
//   leaves = max(t, the link is free) + b / B
// (Lindley 1952, "The theory of queues with a single server"), and goes to its next link then. All
// workers begin at 0 and push chunk after chunk. A server has a rack's sum of a chunk when it has
// it of all its workers and of all racks below, pushes it to the rack above in the chunk's tree,
// and replies to those workers and racks when it has the reply, or is the root. The round's time is
// that of the last reply: the pipeline's fill, the busiest links with what their queues hold up,
// and its drain. Nothing is fitted; servers, workers and tcp take no time.
//
// The busiest link alone (least_seconds, testbed/fabric.h) is a lower bound of it.
//
// Pure functions; any thread.
#pragma once

#include "bench/rack/testbed/fabric.h"
#include "proto/rack.pb.h"

namespace phub::bench {

// Seconds of a round of the scenario's exchange over the fabric's links; rates count frames of the
// scenario's mtu. Chunks are spread evenly over servers and trees. Packets are frames, or more in
// a round that would have more than a million.
// REQUIRES: a scenario that exchanges, or replays, and its fabric.
double modelled_seconds(const RackScenario& scenario, const Fabric& fabric);

}  // namespace phub::bench

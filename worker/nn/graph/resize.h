// The same network for images of another size. A pure function; any thread.
#pragma once

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

// The graph with the same layers and parameters, whose input has that height and width. Errors:
// kInvalidArgument names the layer that takes images of one size alone, and the cure.
Result<Graph> resize(const Graph& graph, Extent image);

}  // namespace phub::nn

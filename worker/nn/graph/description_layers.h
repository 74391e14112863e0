// One layer of a description <-> one layer of a graph. Used by description.cc only.
#pragma once

#include "common/base/status.h"
#include "proto/network.pb.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

// Errors: "FIELD: what is wrong; the cure".
Result<LayerKind> kind_of(const LayerConfig& config);

// Sets the kind; fields with their defaults are left out.
void describe_kind(const LayerKind& kind, LayerConfig& config);

}  // namespace phub::nn

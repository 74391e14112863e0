// Several replicas of a network in one worker, each with threads and a part of the batch of its
// own, so that none is larger than its CPUs' caches and memory like: the groups of You, Buluc,
// Demmel, 2017 (there of a Knights Landing chip). Their gradients are added up here, in a tree,
// before they are pushed.
//
// An executor whose hooks are told by the caller's thread, which is the first group's.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/nn/graph/graph.h"
#include "worker/train/backends.h"

namespace phub::train {

// REQUIRES: options.groups of 2 or more, which divides options.batch. `options.threads` is each
// group's. Errors: make_executor's.
Result<std::unique_ptr<nn::Executor>> make_replica_groups(const nn::Graph& graph,
                                                          const ExecutorOptions& options);

}  // namespace phub::train

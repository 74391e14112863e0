// What a run starts with: initial parameters, a checkpoint, or what a restored job has.
//
// A function of the trainer's thread.
#pragma once

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/train/checkpoints/checkpoint.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/session.h"

namespace phub::train {

// Fills the gradient arrays with initial parameters, agrees on them, and returns the first step. A
// job that was restored from a snapshot has parameters; what the network itself keeps (statistics
// of batches) comes from a checkpoint of the same step, if there is one.
Result<RunPosition> initialise(const SessionOptions& options, nn::Executor& network,
                               GradientExchange& exchange);

}  // namespace phub::train

// How the workers of a job agree on their parts of a batch (TrainConfig.share).
#pragma once

#include <stop_token>

#include "common/base/status.h"
#include "proto/config.pb.h"
#include "worker/train/session.h"

namespace phub {

// Meets the other workers in a job of its own, tells them this worker's weight and learns theirs;
// sets the options' batch and part, and the configuration's worker_index, which must be that of the
// training. Where the share is "auto", the network's steps are timed on noise, at all workers at
// the same time. Without a share nothing happens. `stop` ends its waits. Errors: the client's;
// kInvalidArgument names train.share.
Status agree_on_shares(WorkerConfig& config, train::SessionOptions& options,
                       const std::stop_token& stop = {});

}  // namespace phub

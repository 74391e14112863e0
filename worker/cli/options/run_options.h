// What a configuration means to the parts of a worker. Pure functions, but for make_exchange,
// which joins the job.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "common/base/status.h"
#include "proto/config.pb.h"
#include "worker/cli/options/cuda_choice.h"
#include "worker/client/phub.h"
#include "worker/nn/graph/description.h"
#include "worker/train/session.h"

namespace phub {

// The model that the configuration names or describes. Errors name the field below "model".
Result<nn::Description> network_of(const ModelConfig& model);

// `verbose`: prints also where this is not worker 0.
train::SessionOptions session_of(const WorkerConfig& config, nn::Description network, bool verbose);

// Of the training's job. REQUIRES: servers.
ClientOptions client_of(const WorkerConfig& config);

// The command line's choice with the configuration's devices, which it has overridden already.
train::CudaOptions cuda_of(const WorkerConfig& config, const CudaChoice& choice);

// Through the configuration's servers, or in this process where there are none. `stop` ends it
// while it waits for others, with kAborted. `peers`: ClientOptions::peers.
Result<std::unique_ptr<train::GradientExchange>> make_exchange(
    const WorkerConfig& config, const std::vector<KeySpec>& keys, const std::stop_token& stop = {},
    const client::PeerListens& peers = {});

}  // namespace phub

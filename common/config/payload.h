// What makes sense in TrainConfig's payload, local_steps, outer and share.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>

#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

// What TrainConfig.share says; 0: it is to be measured. Nothing: it is neither.
std::optional<float> share_weight(const std::string& share);

// What TrainConfig.outer.elasticity says, or else the default.
float elasticity_of(const WorkerConfig& config);

// The share of its own parameters that a worker keeps: TrainConfig.outer.mix, or else the default.
float mix_of(const OuterConfig& outer);

// `train` is the check of config.train().
void check_payload(const WorkerConfig& config, ConfigCheck train);

}  // namespace phub

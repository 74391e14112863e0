// What makes sense in a DataConfig. Pure functions; any thread.
#pragma once

#include "common/config/check.h"
#include "proto/config.pb.h"

namespace phub {

// `check` is that of `data`.
void check_data(const DataConfig& data, ConfigCheck check);

// Whether data.progressive leaves epochs to images of the network's size. `check` is that of
// `data`.
void check_progressive(const WorkerConfig& config, ConfigCheck check);

// Whether batches are made of the pairs that data.mixup mixes. `check` is that of `train`.
void check_pairs(const WorkerConfig& config, ConfigCheck check);

}  // namespace phub

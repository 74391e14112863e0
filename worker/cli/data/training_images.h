// The images of a configuration as its training makes them.
//
// Functions of main's thread.
#pragma once

#include "common/base/status.h"
#include "worker/cli/options/run_arguments.h"
#include "worker/data/feed/order.h"
#include "worker/data/images.h"
#include "worker/train/session.h"

namespace phub {

struct TrainingImages {
  train::SessionOptions options;
  data::ImageSets sets;
};

// Errors: those of the configuration and of its data, kInvalidArgument where the network does not
// take the images. The host need not have all of data.cache.memory_mib: decoded images take what is
// free of it, or nothing without `keeps_decoded`. Nothing is held for data.spread.
Result<TrainingImages> open_training_images(const WorkerConfig& config, bool keeps_decoded);

// Worker 0's batches of the training.
data::TrainingOptions training_order(const train::SessionOptions& options);

}  // namespace phub

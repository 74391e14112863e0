// How the workers of a job agree on what they push of a gradient, where the configuration leaves it
// to them (CompressConfig.encoding "auto").
#pragma once

#include <stop_token>

#include "common/base/status.h"
#include "proto/config.pb.h"
#include "worker/train/session.h"

namespace phub {

// Meets the other workers, measures this worker's compute and encoders and everybody's links at the
// same time, and sets the configuration's encoding to what all find fastest, or removes `compress`
// where that is dense; sets wire_type where it is left out; notes what was predicted, for people
// and for the metrics. With an encoding of its own, or without compress, nothing happens. `stop`
// ends its waits. Errors: the client's; kInvalidArgument names the field.
Status agree_on_encoding(WorkerConfig& config, train::SessionOptions& options,
                         const std::stop_token& stop = {});

}  // namespace phub

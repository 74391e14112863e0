// What a worker of a job with rounds.hogwild does with a gradient itself: kernels/hogwild.h.
//
// Any thread; of a client, its own.
#pragma once

#include <span>

#include "common/base/rule.h"
#include "worker/client/phub.h"

namespace phub::client {

// `shared`: the key's parameters; `own`: what the worker pushes, as many. `hyper`: what it last
// said.
void step_shared(const ClientOptions& options, const KeySpec& key, const Hyper& hyper,
                 std::span<float> shared, const float* own);

// Whether the job's options allow it. Errors name the field and the cure.
Status check_hogwild(const ClientOptions& options);

}  // namespace phub::client

// The CPU backend, on oneDNN (Debian's libdnnl 2.6, which brings GNU OpenMP).
//
// Activations are NHWC; weights take the layouts that oneDNN's kernels like best and are reordered
// from and to the exchange's plain arrays each step, unless both agree and nothing moves.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "worker/nn/ops.h"

namespace phub::nn {

// Sets the calling thread's number of OpenMP threads. Errors: kInvalidArgument for a compute type
// other than fp32, or for 0 threads.
Result<std::unique_ptr<Backend>> make_onednn_backend(const BackendOptions& options);

}  // namespace phub::nn

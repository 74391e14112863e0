// The CPU backend, on oneDNN (Debian's libdnnl 2.6, which brings GNU OpenMP).
//
// Activations and their gradients are NHWC, in fp32 or bf16; weights take the layouts that oneDNN's
// kernels like best and are reordered (and rounded to bf16) from the exchange's plain fp32 arrays,
// their gradients in fp32 to those, each step, unless both agree and nothing moves. Sums,
// statistics, scales and what an inner product at the network's end writes are fp32 in either type.
// Which implementation computes a pass of a convolution or a product is BackendOptions::kernels'
// choice.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "worker/nn/ops.h"

namespace phub::nn {

// Sets the calling thread's number of OpenMP threads. Errors: kInvalidArgument for 0 threads, for
// fp16, and for bf16 on a processor for which oneDNN has no such kernels.
Result<std::unique_ptr<Backend>> make_onednn_backend(const BackendOptions& options);

}  // namespace phub::nn

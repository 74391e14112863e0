// The reference backend: plain C++ on one thread, every layer kind, written to be read and to be
// compared with. Some hundred times slower than the others.
//
// Activations are NHWC. Masks of dropout are those of every backend (worker/nn/dropout.h).
#pragma once

#include <memory>

#include "common/base/status.h"
#include "worker/nn/ops.h"

namespace phub::nn {

// Computes in fp32. Errors: kInvalidArgument for another compute type or for threads other than 1.
Result<std::unique_ptr<Backend>> make_reference_backend(const BackendOptions& options);

// Computes in fp64, for tests: what others' rounding is measured against, and what finite
// differences are taken of. Its tensors are reference::ReferenceTensor<double>
// (worker/nn/reference/ tensor.h), whose values can be had in full; parameters and gradients are
// bound in fp32.
std::unique_ptr<Backend> make_double_backend();

}  // namespace phub::nn

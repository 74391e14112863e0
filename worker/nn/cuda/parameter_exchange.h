// Between the exchange's arrays and the device: parameters on their way in, gradients on their way
// out, layer by layer.
//
// Owned by the program; its thread. The exchange's arrays outlive it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/nn/cuda/host_arrays.h"
#include "worker/nn/cuda/plain_parameters.h"
#include "worker/nn/cuda/runtime.h"
#include "worker/nn/ops.h"

namespace phub::nn::cuda {

class ParameterExchange {
 public:
  // One binding for each key, of as many elements of `type` as the parameter has.
  static Result<std::unique_ptr<ParameterExchange>> create(
      Runtime& runtime, const LoweredRunner& runner, DataType type,
      std::span<const TypedBinding> bindings, const std::function<void(std::string_view)>& note);

  // kUpload: the keys' parameters, from the exchange to where cuDNN reads them.
  Status upload(const KeyRange& keys);
  // kDownload: the keys' gradients, the other way. May be recorded. `not_finite`: the device's.
  Status download(const KeyRange& keys, int* not_finite);
  // On the host, after download is done: the gradients are in the exchange's arrays.
  void arrived(const KeyRange& keys);

 private:
  explicit ParameterExchange(Runtime& runtime) : runtime_(runtime) {}

  Runtime& runtime_;
  std::unique_ptr<PlainParameters> plain_;
  std::unique_ptr<HostArrays> host_;  // of each key its parameter, then its gradient
};

}  // namespace phub::nn::cuda

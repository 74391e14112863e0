// Between the exchange's arrays and the device: parameters on their way in, gradients on their way
// out, layer by layer.
//
// Owned by the executor; its thread. The exchange's arrays outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "worker/cuda/executor/host_arrays.h"
#include "worker/cuda/executor/plain_parameters.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

class ParameterExchange {
 public:
  // REQUIRES: check_bindings.
  static Result<std::unique_ptr<ParameterExchange>> create(
      Runtime& runtime, const LoweredRunner& runner, const TypedBindings& bindings,
      const std::function<void(std::string_view)>& note);

  // kUpload: the keys' parameters, from the exchange to where cuDNN reads them.
  Status upload(const KeyRange& keys);
  // kDownload: the keys' gradients, the other way. May be captured. `not_finite`: the device's.
  Status download(const KeyRange& keys, int* not_finite);
  // On the host, after download is done: the gradients are in the exchange's arrays. Of those on
  // the device that is so already: a network adapter may read them once the host knows that the
  // stream has got past the kernel that wrote them, since its writes are visible to all when it has
  // ended.
  void arrived(const KeyRange& keys);

 private:
  explicit ParameterExchange(Runtime& runtime) : runtime_(runtime) {}

  Runtime& runtime_;
  std::unique_ptr<PlainParameters> plain_;
  // Not null: gradients stay in this memory of the device. They are on their way out when they are
  // written.
  ExportedMemoryPointer exported_;
  std::unique_ptr<HostArrays> host_;  // the keys' parameters, then their gradients if there
};

}  // namespace phub::nn::cuda

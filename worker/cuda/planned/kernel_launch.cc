#include "worker/cuda/planned/kernel_launch.h"

#include <variant>

#include "kernels/cuda/network_kernels.h"
#include "worker/cuda/runtime/device.h"

namespace phub::nn::cuda {
namespace {

struct Launch {
  cudaStream_t stream;

  template <typename Arguments>
  cudaError_t operator()(const Arguments& arguments) const {
    return kernels::cuda::run(arguments, stream);
  }
  cudaError_t operator()(const kernels::cuda::ApplySubsample& arguments) const {
    return kernels::cuda::run_forward(arguments, stream);
  }
  cudaError_t operator()(const SubsampleBackward& backward) const {
    return kernels::cuda::run_backward(backward.arguments, stream);
  }
  cudaError_t operator()(const KeepStatistics& keep) const {
    const std::size_t bytes = static_cast<std::size_t>(keep.channels) * sizeof(float);
    const cudaError_t first =
        cudaMemcpyAsync(keep.mean, keep.next_mean, bytes, cudaMemcpyDeviceToDevice, stream);
    if (first != cudaSuccess) return first;
    return cudaMemcpyAsync(keep.variance, keep.next_variance, bytes, cudaMemcpyDeviceToDevice,
                           stream);
  }
};

}  // namespace

Status launch(const Lowered& lowered, const Step& step, const KernelMemory& memory,
              cudaStream_t stream) {
  const auto arguments = arguments_of(lowered, std::get<KernelStep>(step.work), memory);
  return cuda_status(std::visit(Launch{stream}, arguments), step.name);
}

}  // namespace phub::nn::cuda

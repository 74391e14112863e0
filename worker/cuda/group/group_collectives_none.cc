// In place of group_collectives.cc where NCCL's header was not found.
#include "worker/cuda/group/group_collectives.h"

namespace phub::nn::cuda {

Status check_collectives(const DeviceExecutorOptions& /*options*/) {
  return {Code::kFailedPrecondition,
          "train.devices: this libphub_cuda.so was built without NCCL: build it where nccl.h is "
          "(NVIDIA's package libnccl-dev), or train on one GPU"};
}

Result<std::unique_ptr<Collectives>> make_collectives(const std::vector<GroupDevice>& /*devices*/,
                                                      const DeviceExecutorOptions& options) {
  return check_collectives(options);
}

}  // namespace phub::nn::cuda

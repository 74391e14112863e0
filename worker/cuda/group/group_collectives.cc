#include "worker/cuda/group/group_collectives.h"

#include <string>
#include <utility>

#include "worker/cuda/group/nccl_collectives.h"

namespace phub::nn::cuda {

Status check_collectives(const DeviceExecutorOptions& options) {
  const auto library = NcclLibrary::open(options.libraries);
  return library ? Status() : library.error();
}

Result<std::unique_ptr<Collectives>> make_collectives(const std::vector<GroupDevice>& devices,
                                                      const DeviceExecutorOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto library, NcclLibrary::open(options.libraries));
  options.note("NCCL " + std::to_string(library->version()) + " from " + library->path() + ", " +
               std::to_string(devices.size()) + " GPUs");
  std::vector<NcclCollectives::Rank> ranks;
  for (const GroupDevice& device : devices) ranks.push_back({device.device, device.runtime});
  PHUB_ASSIGN_OR_RETURN(
      auto collectives,
      NcclCollectives::create(std::move(library), std::move(ranks), options.timeout));
  return std::unique_ptr<Collectives>(std::move(collectives));
}

}  // namespace phub::nn::cuda

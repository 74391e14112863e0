#include "common/transport/verbs/gpu_source.h"

#include "common/transport/verbs/memory.h"

namespace phub::transport::verbs {
namespace {

Result<Registration> by_dmabuf(ibv_pd& domain, const ExportedMemory& memory) {
  if (!memory.dmabuf) return Status(Code::kFailedPrecondition, memory.no_dmabuf);
  return register_memory(domain, {memory.bytes, memory.dmabuf.get(), memory.dmabuf_offset},
                         RegionAccess::kSource);
}

}  // namespace

Result<GpuSource> register_gpu(ibv_pd& domain, const ExportedMemory& memory) {
  GpuSource source;
  auto registration = by_dmabuf(domain, memory);
  if (!registration) {
    source.refused = "no dma-buf: " + registration.error().message();
    source.path = GpuPath::kPeerMemory;
    // The kernel pins the address as the host's, fails, and then asks the modules for peer memory.
    registration = register_memory(domain, memory.bytes, RegionAccess::kSource);
  }
  if (!registration) {
    return Status(Code::kFailedPrecondition,
                  std::string(ibv_get_device_name(domain.context->device)) +
                      " cannot read the GPU's memory: " + source.refused +
                      "; no peer memory: " + registration.error().message() +
                      ". One of the two is needed: NVIDIA's open kernel modules with Linux 5.12 or "
                      "newer (dma-buf), or the module nvidia-peermem");
  }
  source.registration = std::move(*registration);
  return source;
}

const char* name_of(GpuPath path) { return path == GpuPath::kDmaBuf ? "dma-buf" : "peer memory"; }

}  // namespace phub::transport::verbs

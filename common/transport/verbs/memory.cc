#include "common/transport/verbs/memory.h"

#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace phub::transport::verbs {
namespace {

int flags_of(RegionAccess access) {
  // A remote write needs the local one (InfiniBand specification, 10.6.3.1).
  return access == RegionAccess::kWindow ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
}

std::string memlock_text() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "memlock is unlimited";
  return "memlock is " + std::to_string(limit.rlim_cur >> 10U) +
         " KiB: raise it (ulimit -l unlimited, LimitMEMLOCK=infinity in the unit)";
}

Status refused_dmabuf(const ibv_pd& domain, std::size_t bytes) {
  const int error = errno;
  const std::string device = ibv_get_device_name(domain.context->device);
  const std::string what = error == EOPNOTSUPP || error == ENOSYS
                               ? device + " or its driver registers none"
                               : "registering " + std::to_string(bytes >> 10U) + " KiB with " +
                                     device +
                                     " (can it reach the GPU over PCIe, is the IOMMU in its way?)";
  errno = error;
  return errno_status(what, Code::kFailedPrecondition);
}

Status refused(const ibv_pd& domain, std::size_t bytes) {
  const int error = errno;
  const std::string what = "registering " + std::to_string(bytes >> 10U) + " KiB with " +
                           ibv_get_device_name(domain.context->device);
  ibv_device_attr limits = {};
  std::string cure = memlock_text();
  if (ibv_query_device(domain.context, &limits) == 0 && bytes > limits.max_mr_size) {
    cure = "the device takes at most " + std::to_string(limits.max_mr_size >> 10U) +
           " KiB in one region (max_mr_size): spread the job over more servers";
  }
  errno = error;
  return errno_status(what + " (" + cure + ")", Code::kResourceExhausted);
}

}  // namespace

Result<Registration> register_memory(ibv_pd& domain, const MemoryRegion& region,
                                     RegionAccess access) {
  const auto bytes = region.bytes;
  if (region.dmabuf_fd < 0) {
    Registration registration(
        ibv_reg_mr(&domain, bytes.data(), bytes.size(), static_cast<unsigned>(flags_of(access))));
    if (!registration) return refused(domain, bytes.size());
    return registration;
  }
  Registration registration(ibv_reg_dmabuf_mr(&domain, region.dmabuf_offset, bytes.size(),
                                              reinterpret_cast<std::uint64_t>(bytes.data()),
                                              region.dmabuf_fd, flags_of(access)));
  if (!registration) return refused_dmabuf(domain, bytes.size());
  return registration;
}

}  // namespace phub::transport::verbs

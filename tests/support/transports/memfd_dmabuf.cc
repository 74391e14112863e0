// ibv_reg_dmabuf_mr for adapters without it (software RDMA): the descriptor's file is mapped, and
// the mapping registered under the address that the caller gives. Linked into a test, it comes
// before the library's; everything else is the real libibverbs and the real device.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>

extern "C" struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd* domain, uint64_t offset, size_t bytes,
                                            uint64_t address, int fd, int access) {
  // Stays mapped: the device has the pages for as long as the process runs.
  void* place =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (place == MAP_FAILED) return nullptr;
  return ibv_reg_mr_iova2(domain, place, bytes, address, static_cast<unsigned>(access));
}

// What a real kernel and a real adapter that can read no GPU say when they are asked to.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <iostream>

#include "common/transport/verbs/gpu_source.h"
#include "common/transport/verbs/open_device.h"
#include "tests/support/transports/rdma_devices.h"
#include "tests/support/walled_memory.h"

namespace phub::transport {
namespace {

using phub::testing::WalledMemory;

// A dma-buf of the kernel's own, over the memory's file. None where the kernel has no udmabuf.
UniqueFd real_dmabuf(const ExportedMemory& memory) {
  const UniqueFd driver(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  if (!driver) return {};
  const UniqueFd file(::memfd_create("udmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto length = static_cast<off_t>(memory.bytes.size());
  if (::ftruncate(file.get(), length) != 0) return {};
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return {};
  udmabuf_create create = {};
  create.memfd = static_cast<__u32>(file.get());
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = memory.bytes.size();
  return UniqueFd(::ioctl(driver.get(), UDMABUF_CREATE, &create));
}

}  // namespace

TEST_CASE("software RDMA refuses a dma-buf and a device's addresses, each with its reason") {
  for (const auto& device : rdma_devices()) {
    const auto domain = std::move(*verbs::make_domain(*device));
    const auto memory = WalledMemory::create(16 * 4096);
    UniqueFd real = real_dmabuf(*memory);
    std::cout << device->name << ": the dma-buf is "
              << (real ? "a real one (udmabuf)\n" : "a file, as there is no udmabuf\n");
    if (real) memory->dmabuf = std::move(real);
    const auto source = verbs::register_gpu(*domain, *memory);
    REQUIRE_FALSE(source);
    std::cout << source.error().message() << '\n';
    CHECK(source.error().code() == Code::kFailedPrecondition);
    CHECK_THAT(source.error().message(),
               Catch::Contains(device->name + " or its driver registers none: Operation not "
                                              "supported") &&
                   Catch::Contains("Bad address"));
  }
}

}  // namespace phub::transport

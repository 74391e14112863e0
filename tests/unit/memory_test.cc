// Mapped memory: huge pages when the machine has them, sizes that peers agree on.
#include "common/base/memory.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

namespace phub {
namespace {

constexpr std::size_t kHuge = 2U << 20U;
constexpr std::size_t kBytes = kHuge + 5000;  // two huge pages

std::size_t free_huge_pages() {
  std::size_t pages = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> pages;
  return pages;
}

// What the machine can give now: run it after `sysctl vm.nr_hugepages=8` to see the pool used.
Pages expected(std::size_t bytes) {
  const bool is_enough = bytes >= kHuge / 2 && free_huge_pages() >= (bytes + kHuge - 1) / kHuge;
  return is_enough ? Pages::kReserved : Pages::kTransparent;
}

}  // namespace

TEST_CASE("reserved huge pages are taken when there are enough, and given back") {
  const std::size_t before = free_huge_pages();
  for (const std::size_t bytes : {kBytes, std::size_t{4096}, kHuge * (before + 1)}) {
    INFO(bytes << " bytes, " << before << " pages in the pool");
    const Pages pages = expected(bytes);
    const auto mapping = std::move(*Mapping::anonymous(bytes, Pages::kReserved));
    CHECK(mapping->pages() == pages);
    CHECK(mapping->size() == bytes);
    mapping->data()[0] = std::byte{1};
    mapping->data()[bytes - 1] = std::byte{1};
    CHECK(mapping->resident_bytes() > 0);
  }
  CHECK(free_huge_pages() == before);
}

TEST_CASE("shared memory of huge pages is mapped, and shared as any other") {
  const std::size_t before = free_huge_pages();
  {
    const Pages pages = expected(kBytes);
    const auto memory = std::move(*SharedMemory::create("test", kBytes, Pages::kReserved));
    CHECK(memory->pages() == pages);
    CHECK(memory->size() == kBytes);
    const auto read_only = std::move(*memory->share_read_only());
    const auto peer = std::move(*Mapping::of_file(read_only.get(), kBytes, false));
    memory->data()[kBytes - 1] = std::byte{7};
    CHECK(peer->data()[kBytes - 1] == std::byte{7});
    CHECK_FALSE(Mapping::of_file(read_only.get(), kBytes, true));
    CHECK_FALSE(Mapping::of_file(memory->fd(), 3 * kHuge, false));
  }
  CHECK(free_huge_pages() == before);
}

TEST_CASE("memory without the wish for reserved pages leaves the pool alone") {
  const std::size_t before = free_huge_pages();
  const auto memory = std::move(*SharedMemory::create("test", kBytes));
  const auto mapping = std::move(*Mapping::anonymous(kBytes));
  CHECK(memory->pages() == Pages::kTransparent);
  CHECK(mapping->pages() == Pages::kTransparent);
  CHECK(free_huge_pages() == before);
}

}  // namespace phub

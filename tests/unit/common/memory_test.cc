// Mapped memory: huge pages when the machine has them, sizes that peers agree on.
#include "common/memory/memory.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace phub {
namespace {

constexpr std::size_t kHuge = 2U << 20U;
constexpr std::size_t kBytes = kHuge + 5000;  // two huge pages

std::size_t free_huge_pages() {
  std::size_t pages = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> pages;
  return pages;
}

// The size of the page at `address`, as the kernel tells it.
std::size_t page_kib(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t from = 0, to = 0;
    char dash = 0;
    if (words >> std::hex >> from >> dash >> to && dash == '-') {
      is_here = from <= wanted && wanted < to;
    } else if (is_here && line.starts_with("KernelPageSize:")) {
      return std::stoul(line.substr(line.find(':') + 1));
    }
  }
  return 0;
}

// What it says of its pages is what the kernel and the pool say.
void check_pages(const std::byte* data, Pages pages, std::size_t taken) {
  CHECK((pages == Pages::kReserved) == (page_kib(data) == 2048));
  CHECK((pages == Pages::kReserved) == (taken > 0));
}

}  // namespace

// Run it after `sysctl vm.nr_hugepages=8` to see the pool used.
TEST_CASE("reserved huge pages are taken when there are enough, and given back") {
  const std::size_t before = free_huge_pages();
  const auto map = [&](std::size_t bytes) {
    auto mapping = std::move(*Mapping::anonymous(bytes, Pages::kReserved));
    CHECK(mapping->size() == bytes);
    check_pages(mapping->data(), mapping->pages(), before - free_huge_pages());
    mapping->data()[0] = std::byte{1};
    mapping->data()[bytes - 1] = std::byte{1};
    return mapping->pages();
  };
  INFO(before << " pages in the pool");
  CHECK(map(4096) == Pages::kTransparent);  // most of a page would be lost
  CHECK(map(kHuge * (before + 1)) == Pages::kTransparent);
  if (before >= 2) CHECK(map(kBytes) == Pages::kReserved);
  if (before < 2) CHECK(map(kBytes) == Pages::kTransparent);
  CHECK(free_huge_pages() == before);
}

TEST_CASE("shared memory of huge pages is mapped, and shared as any other") {
  const std::size_t before = free_huge_pages();
  {
    const auto memory = std::move(*SharedMemory::create("test", kBytes, Pages::kReserved));
    CHECK((memory->pages() == Pages::kReserved) == (before >= 2));
    check_pages(memory->data(), memory->pages(), before - free_huge_pages());
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

// A core with as many connections as it has room for, over every transport: lists that are filled
// on the data path are as long as they may become when they are made.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "tests/support/core_rig.h"
#include "tests/support/fake_verbs.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<std::uint64_t> allocations{0};
}  // namespace

// Not inlined: the compiler would see malloc and free without the operators between them.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed) && !phub::fake_verbs::in_device()) {
    allocations.fetch_add(1);
  }
  if (void* memory = std::malloc(bytes)) return memory;  // NOLINT(*-no-malloc)
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }  // NOLINT
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}  // NOLINT

namespace phub::testing {

TEST_CASE("a core that answers every connection of every transport allocates nothing") {
  CoreRig rig("all");
  rig.push_chunk(3);  // of all workers: when it is complete, all have an answer at once
  allocations = 0;
  counting = true;
  rig.run();
  counting = false;
  CHECK(allocations == 0);
  CHECK(rig.waiting_answers() == 6);
}

}  // namespace phub::testing

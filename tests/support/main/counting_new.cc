#include "tests/support/main/counting_new.h"

#include <cstdlib>
#include <new>

#include "tests/support/transports/fake_verbs.h"

namespace phub::testing {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> allocations{0};

}  // namespace phub::testing

using phub::testing::allocations;
using phub::testing::counting;

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

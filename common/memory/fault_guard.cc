#include "common/memory/fault_guard.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <utility>

#include "common/memory/memory.h"

namespace phub {
namespace {

// Connections of all cores, and as many again; 24 bytes each, resident as far as they are used.
constexpr std::uint32_t kSlots = 1U << 16U;

struct Slot {
  std::atomic<std::uintptr_t> begin;
  std::atomic<std::uintptr_t> end;  // 0: free
  std::atomic<bool> writable;
  std::atomic<bool> failed;
};

struct GuardTable {
  std::array<Slot, kSlots> slots = {};
  std::atomic<std::uint32_t> used{0};  // slots that were ever taken
  std::atomic<std::uint32_t> faults{0};
  std::atomic<std::uintptr_t> page{0};  // bytes of one
  std::mutex mutex;                     // of those who take and give slots; never the handler's
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free, "the handler takes no lock");

constinit GuardTable table;      // NOLINT(*-avoid-non-const-global-variables): see the header
struct sigaction previous = {};  // NOLINT(*-avoid-non-const-global-variables)

Slot* guarding(std::uintptr_t address) {
  const std::uint32_t used = table.used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    Slot& slot = table.slots[i];
    if (address < slot.end.load(std::memory_order_acquire) &&
        address >= slot.begin.load(std::memory_order_relaxed)) {
      return &slot;
    }
  }
  return nullptr;
}

// True: the page is zeros now, and whoever faulted may go on.
bool replace_page(std::uintptr_t address) {
  Slot* const slot = guarding(address);
  if (slot == nullptr) return false;
  const std::uintptr_t bytes = table.page.load(std::memory_order_relaxed);
  void* const page = reinterpret_cast<void*>(address / bytes * bytes);  // NOLINT: an address
  const int protection =
      slot->writable.load(std::memory_order_relaxed) ? PROT_READ | PROT_WRITE : PROT_READ;
  if (::mmap(page, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    return false;
  }
  slot->failed.store(true, std::memory_order_relaxed);
  table.faults.fetch_add(1, std::memory_order_release);
  return true;
}

void on_fault(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_replaced = replace_page(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error;
  if (is_replaced) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    return previous.sa_sigaction(number, info, context);  // a sanitizer's
  }
  ::sigaction(SIGBUS, &previous, nullptr);  // the instruction faults again, and ends the process
}

}  // namespace

Status install_fault_guard() {
  table.page = page_bytes();
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGBUS, &action, &previous) != 0) return errno_status("sigaction of SIGBUS");
  return {};
}

std::uint32_t guarded_faults() { return table.faults.load(std::memory_order_acquire); }

Result<GuardedRange> GuardedRange::create(const void* data, std::size_t bytes, bool writable) {
  const std::lock_guard lock(table.mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    Slot& slot = table.slots[i];
    if (slot.end.load(std::memory_order_relaxed) != 0) continue;
    slot.failed = false;
    slot.writable = writable;
    slot.begin.store(begin, std::memory_order_relaxed);
    slot.end.store(begin + bytes, std::memory_order_release);
    if (i >= table.used) table.used.store(i + 1, std::memory_order_release);
    return GuardedRange(i);
  }
  return Status(Code::kResourceExhausted, "all " + std::to_string(std::uint32_t{kSlots}) +
                                              " ranges of peers' memory are taken; end other jobs");
}

GuardedRange::~GuardedRange() {
  if (slot_ == kNone) return;
  const std::lock_guard lock(table.mutex);
  table.slots[slot_].end.store(0, std::memory_order_release);
}

GuardedRange::GuardedRange(GuardedRange&& other) noexcept
    : slot_(std::exchange(other.slot_, kNone)) {}

GuardedRange& GuardedRange::operator=(GuardedRange&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

bool GuardedRange::has_failed() const {
  return slot_ != kNone && table.slots[slot_].failed.load(std::memory_order_relaxed);
}

}  // namespace phub

// Pages of a peer that cannot be read cost the reader that peer, and nothing else.
#include "common/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "common/base/unique_fd.h"
#include "common/memory/memory.h"

namespace phub {
namespace {

const bool installed = install_fault_guard().ok();

constexpr std::size_t kPages = 4;

// Memory whose owner makes it shorter under its reader, which a sealed one cannot be.
struct Shortened {
  std::size_t bytes = kPages * page_bytes();
  UniqueFd fd{::memfd_create("shortened", MFD_CLOEXEC)};
  std::unique_ptr<Mapping> mapping;

  Shortened() {
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    mapping = std::move(*Mapping::of_file(fd.get(), bytes, false));
    const char one = 1;
    for (std::size_t page = 0; page < kPages; ++page) {
      REQUIRE(::pwrite(fd.get(), &one, 1, static_cast<off_t>(page * page_bytes())) == 1);
    }
  }
  void shorten(std::size_t pages) const {
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(pages * page_bytes())) == 0);
  }
  int first_byte_of(std::size_t page) const {
    return std::to_integer<int>(
        static_cast<const volatile std::byte&>(mapping->data()[page * page_bytes()]));
  }
};

}  // namespace

TEST_CASE("a page that fails is zeros, its range is marked, and others are not") {
  REQUIRE(installed);
  const Shortened broken;
  const Shortened other;
  REQUIRE(broken.mapping->guard(false).ok());
  REQUIRE(other.mapping->guard(false).ok());
  const std::uint32_t before = guarded_faults();
  broken.shorten(2);
  CHECK(broken.first_byte_of(1) == 1);
  CHECK_FALSE(broken.mapping->has_failed());
  CHECK(broken.first_byte_of(2) == 0);
  CHECK(broken.first_byte_of(3) == 0);
  CHECK(broken.first_byte_of(1) == 1);
  CHECK(broken.mapping->has_failed());
  CHECK(guarded_faults() == before + 2);
  CHECK_FALSE(other.mapping->has_failed());
  CHECK(other.first_byte_of(3) == 1);
}

TEST_CASE("a fault marks its own range, whichever was guarded first and lies first") {
  REQUIRE(installed);
  for (const bool guards_lower_first : {false, true}) {
    for (const bool breaks_lower : {false, true}) {
      const Shortened one;
      const Shortened two;
      const bool is_one_lower = one.mapping->data() < two.mapping->data();
      const Shortened& lower = is_one_lower ? one : two;
      const Shortened& upper = is_one_lower ? two : one;
      REQUIRE((guards_lower_first ? lower : upper).mapping->guard(false).ok());
      REQUIRE((guards_lower_first ? upper : lower).mapping->guard(false).ok());
      const Shortened& broken = breaks_lower ? lower : upper;
      broken.shorten(0);
      CHECK(broken.first_byte_of(0) == 0);
      CHECK(broken.mapping->has_failed());
      CHECK_FALSE((breaks_lower ? upper : lower).mapping->has_failed());
    }
  }
}

TEST_CASE("a range that is used again begins unmarked") {
  {
    const Shortened broken;
    REQUIRE(broken.mapping->guard(false).ok());
    broken.shorten(0);
    CHECK(broken.first_byte_of(0) == 0);
    CHECK(broken.mapping->has_failed());
  }
  const Shortened next;
  REQUIRE(next.mapping->guard(false).ok());
  CHECK_FALSE(next.mapping->has_failed());
}

TEST_CASE("a fault that nobody guards ends the process as it would without the guard") {
  const Shortened broken;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGBUS, SIG_DFL);  // not the test framework's
    if (!install_fault_guard().ok() || ::ftruncate(broken.fd.get(), 0) != 0) ::_exit(1);
    ::_exit(broken.first_byte_of(0) == 0 ? 2 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

}  // namespace phub

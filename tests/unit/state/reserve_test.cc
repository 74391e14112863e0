// Room on the disk that is kept for what must be written even when it is full.
#include "server/state/reserve.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "tests/support/temporary_directory.h"

namespace phub::server {
namespace {

std::uint64_t room_of(const std::filesystem::path& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? static_cast<std::uint64_t>(found.st_blocks) * 512 : 0;
}

}  // namespace

TEST_CASE("a reserve is room on the disk, given once and made again") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "reserve";
  Reserve reserve(path);
  CHECK_FALSE(reserve.give_back());
  for (int times = 0; times < 2; ++times) {
    REQUIRE(reserve.fill().ok());
    CHECK(room_of(path) >= Reserve::kBytes);
    CHECK(reserve.give_back());
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK_FALSE(reserve.give_back());
  }
}

TEST_CASE("a file in the reserve's place that takes no room is filled") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "reserve";
  folder.write("reserve", "");
  std::filesystem::resize_file(path, Reserve::kBytes);
  REQUIRE(room_of(path) < Reserve::kBytes);
  REQUIRE(Reserve(path).fill().ok());
  CHECK(room_of(path) >= Reserve::kBytes);
}

TEST_CASE("a reserve that cannot be made leaves nothing behind, and says so") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "reserve";
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = Reserve::kBytes / 2, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Status filled = Reserve(path).fill();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(filled.code() == Code::kResourceExhausted);
  CHECK_THAT(filled.message(), Catch::Matchers::Contains(path));
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace phub::server

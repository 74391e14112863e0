// The folder of all stores: its limit, who goes first, and who may not be removed.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/data/cache/kept.h"

namespace phub::data::cache::test {
namespace {

using Catch::Contains;

constexpr std::uint64_t kMebi = 1U << 20U;

void set_used(const std::filesystem::path& store, std::time_t seconds) {
  const timespec times[2] = {{.tv_sec = seconds, .tv_nsec = 0}, {.tv_sec = seconds, .tv_nsec = 0}};
  REQUIRE(::utimensat(AT_FDCWD, (store / "index").c_str(), times, 0) == 0);
}

std::filesystem::path path_of(const TemporaryDirectory& folder, std::uint64_t number) {
  for (const auto& path : stores_in(folder.path)) {
    if (path.filename().native().starts_with("000000000000000" + std::to_string(number))) {
      return path;
    }
  }
  return {};
}

TEST_CASE("the limit holds, is told once, and what was kept before stays") {
  const TemporaryDirectory folder;
  std::vector<std::string> notes;
  const auto store = opened(subject(), place(folder.path, kMebi), &notes);
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    store->keep(sample, content_of(sample, 50'000));
    CHECK(bytes_in(folder.path) <= kMebi);
  }
  CHECK(store->kept() >= 16);
  CHECK(store->kept() <= 20);
  CHECK(count_right(*store, 100, 50'000) == store->kept());
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("its limit is 1 MiB"));
}

TEST_CASE("one process fills the data without gaps") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path, kMebi));
  for (std::uint64_t sample = 0; sample < 9; ++sample) store->keep(sample, Bytes(100'000, 1));
  store->keep(9, Bytes(kMebi - 900'000, 2));
  CHECK(store->kept() == 10);
  CHECK(bytes_in(folder.path) == kMebi);
}

TEST_CASE("a content that is larger than the limit is not kept") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path, kMebi));
  store->keep(1, Bytes(2 * kMebi, 3));
  CHECK_FALSE(store->find(1));
  CHECK(bytes_in(folder.path) == 0);
}

TEST_CASE("unused stores make room, that of the longest ago first, and used ones stay") {
  const TemporaryDirectory folder;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    opened(subject(number), place(folder.path, kMebi))->keep(0, Bytes(200'000, 1));
  }
  const std::time_t now = 1'800'000'000;
  set_used(path_of(folder, 1), now - 10);
  set_used(path_of(folder, 2), now - 30);
  set_used(path_of(folder, 3), now - 20);
  const auto used = opened(subject(2), place(folder.path, kMebi));
  set_used(path_of(folder, 2), now - 30);
  const auto store = opened(subject(4), place(folder.path, kMebi));
  store->keep(0, Bytes(500'000, 4));
  CHECK(path_of(folder, 3).empty());
  CHECK_FALSE(path_of(folder, 1).empty());
  store->keep(1, Bytes(300'000, 4));
  CHECK(path_of(folder, 1).empty());
  CHECK(has(*used, 0, Bytes(200'000, 1)));
  store->keep(2, Bytes(300'000, 4));
  CHECK_FALSE(store->find(2));
  CHECK(bytes_in(folder.path) <= kMebi);
}

TEST_CASE("a store that is used is not removed, and the error says why") {
  const TemporaryDirectory folder;
  auto store = opened(subject(1), place(folder.path));
  store->keep(0, content_of(0));
  const Status refused = removed(path_of(folder, 1));
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("is used by a process"));
  CHECK(look_at(path_of(folder, 1)).is_used);
  store.reset();
  const StoreInfo info = look_at(path_of(folder, 1));
  CHECK_FALSE(info.is_used);
  CHECK(info.kept == 1);
  CHECK(info.samples == 100);
  CHECK(info.about == "a set");
  CHECK(removed(path_of(folder, 1)).ok());
  CHECK(stores_in(folder.path).empty());
}

TEST_CASE("a temporary store goes with the last who has it open") {
  const TemporaryDirectory folder;
  StorePlace temporary = place(folder.path);
  temporary.is_temporary = true;
  auto first = opened(subject(), temporary);
  auto second = opened(subject(), temporary);
  first->keep(1, content_of(1));
  first.reset();
  CHECK(has(*second, 1, content_of(1)));
  second.reset();
  CHECK(stores_in(folder.path).empty());
}

TEST_CASE("who waits for the folder's lock is told after the deadline") {
  const TemporaryDirectory folder;
  const auto held = FolderLock::take(folder.path);
  REQUIRE(held);
  const auto refused = FolderLock::take(folder.path, std::chrono::milliseconds(1));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kDeadlineExceeded);
}

TEST_CASE("a private folder must be this user's alone, and no link") {
  const TemporaryDirectory directory;
  const auto folder = directory.path / "own";
  REQUIRE(make_folder(folder, true).ok());
  REQUIRE(make_folder(folder, true).ok());
  REQUIRE(::chmod(folder.c_str(), 0755) == 0);
  CHECK(make_folder(folder, true).code() == Code::kPermissionDenied);
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
  std::filesystem::create_directory_symlink(folder, directory.path / "link");
  CHECK(make_folder(directory.path / "link", true).code() == Code::kPermissionDenied);
  directory.write("file", "");
  CHECK_FALSE(make_folder(directory.path / "file", false).ok());
}

TEST_CASE("what is no store is left alone") {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder.path / "photos");
  folder.write("photos/one.jpg", "x");
  folder.write("photos/index", "x");
  folder.write("notes.txt", "x");
  CHECK(stores_in(folder.path).empty());
  const auto store = opened(subject(), place(folder.path, kMebi));
  store->keep(0, Bytes(kMebi, 1));
  CHECK(store->find(0));
  CHECK(std::filesystem::exists(folder.path / "photos/one.jpg"));
}

}  // namespace
}  // namespace phub::data::cache::test

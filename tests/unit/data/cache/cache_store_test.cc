// Contents that are kept: they come back as they were, or not at all.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "tests/unit/data/cache/kept.h"

namespace phub::data::cache::test {
namespace {

using Catch::Contains;

TEST_CASE("what is kept comes back, also to who opens the store later") {
  const TemporaryDirectory folder;
  {
    const auto store = opened(subject(), place(folder.path));
    CHECK_FALSE(store->find(3));
    store->keep(3, content_of(3));
    store->keep(99, content_of(99));
    CHECK(store->kept() == 2);
    CHECK(has(*store, 3, content_of(3)));
    const auto other = opened(subject(), place(folder.path));
    CHECK(has(*other, 99, content_of(99)));
  }
  const auto store = opened(subject(), place(folder.path));
  CHECK(count_right(*store, 100) == 2);
  // Another set, and another kind of content, have nothing of it.
  CHECK(count_right(*opened(subject(8), place(folder.path)), 100) == 0);
  StoreSubject decoded = subject();
  decoded.content = "decoded-3-0";
  CHECK(count_right(*opened(decoded, place(folder.path)), 100) == 0);
}

TEST_CASE("a part of a content is read by its place, and nothing beyond it") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path));
  store->keep(1, content_of(1));
  store->keep(2, content_of(2));
  const auto entry = store->find(1);
  REQUIRE(entry);
  Bytes part(10);
  REQUIRE(store->read(*entry, 500, part));
  const Bytes whole = content_of(1);
  CHECK(part == Bytes(whole.begin() + 500, whole.begin() + 510));
  CHECK_FALSE(store->read(*entry, whole.size() - 9, part));
  CHECK_FALSE(store->read(*entry, ~std::uint64_t{0} - 4, part));
}

TEST_CASE("a damaged content is not returned, and may be kept anew") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path));
  store->keep(5, content_of(5));
  store->keep(6, content_of(6));
  const auto path = stores_in(folder.path).at(0);
  {
    std::fstream data(path / "data", std::ios::in | std::ios::out | std::ios::binary);
    data.seekp(static_cast<std::streamoff>(store->find(5)->offset + 17));
    data.put('\x55');
  }
  CHECK(verify(path).value().damaged == std::vector<std::uint64_t>{5});
  Bytes buffer;
  CHECK_FALSE(store->read(5, buffer));
  CHECK(has(*store, 6, content_of(6)));
  store->keep(5, content_of(5));
  CHECK(has(*store, 5, content_of(5)));
  const VerifyReport report = verify(path).value();
  CHECK(report.damaged.empty());
  CHECK(report.samples == 2);
}

TEST_CASE("a content of no use is replaced, and the same one is not written again") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path));
  store->keep(5, content_of(5, 300));
  store->replace(5, content_of(5));
  CHECK(has(*store, 5, content_of(5)));
  CHECK(store->kept() == 2);
  store->replace(5, content_of(5));
  CHECK(store->kept() == 2);
  store->replace(6, content_of(6));
  CHECK(has(*store, 6, content_of(6)));
  CHECK(count_right(*opened(subject(), place(folder.path)), 100) == 2);
}

TEST_CASE("a content of no use goes where there is no room for another one") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path, 2000));
  store->keep(5, content_of(5));
  store->replace(5, content_of(6, 1900));
  CHECK_FALSE(store->find(5));
  CHECK(count_right(*store, 100) == 0);
}

TEST_CASE("whatever an index or the data have become, no wrong content is returned") {
  const TemporaryDirectory folder;
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto store = opened(subject(1000 + static_cast<std::uint64_t>(round), 20),
                              place(folder.path, 1U << 30U));
    for (std::uint64_t sample = 0; sample < 20; ++sample) store->keep(sample, content_of(sample));
    const auto path = stores_in(folder.path).back();
    const char* const name = round % 2 == 0 ? "index" : "data";
    const std::uint64_t size = std::filesystem::file_size(path / name);
    // The header is compared when a store is opened.
    const std::uint64_t first = round % 2 == 0 ? sizeof(StoreHeader) : 0;
    if (round % 5 == 4) {
      std::filesystem::resize_file(path / name,
                                   static_cast<std::uintmax_t>(first + random() % (size - first)));
    } else {
      std::fstream file(path / name, std::ios::in | std::ios::out | std::ios::binary);
      for (int change = 0; change < 40; ++change) {
        file.seekp(static_cast<std::streamoff>(first + random() % (size - first)));
        file.put(static_cast<char>(random()));
      }
    }
    count_right(*store, 20);
    (void)verify(path);
    (void)look_at(path);
  }
}

void write_entry(const std::filesystem::path& folder, std::uint64_t sample, StoreEntry entry) {
  std::fstream file(stores_in(folder).at(0) / "index",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(place_of(sample)));
  file.write(reinterpret_cast<const char*>(&entry), sizeof(entry));
}

TEST_CASE("entries of one sample are none of another") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path));
  store->keep(4, content_of(4));
  const auto entry = store->find(4);
  REQUIRE(entry);
  write_entry(folder.path, 5, *entry);
  CHECK(store->find(4));
  CHECK_FALSE(store->find(5));
}

TEST_CASE("entries that no writer makes are none, whatever their checksums") {
  const TemporaryDirectory folder;
  const auto store = opened(subject(), place(folder.path));
  store->keep(4, content_of(4));
  StoreEntry entry = store->find(4).value();
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMaxSampleBytes + 1, kMaxSampleBytes}) {
    entry.bytes = static_cast<std::uint32_t>(bytes);
    entry.crc = entry.right_crc(5);
    write_entry(folder.path, 5, entry);
    CHECK(store->find(5).has_value() == (bytes == kMaxSampleBytes));
    Bytes buffer;
    CHECK_FALSE(store->read(5, buffer));
  }
}

TEST_CASE("threads of several openers keep and read the same samples at the same time") {
  constexpr std::uint64_t kSamples = 300;
  const TemporaryDirectory folder;
  std::vector<std::unique_ptr<SampleStore>> stores;
  for (int i = 0; i < 3; ++i) {
    stores.push_back(opened(subject(7, kSamples), place(folder.path)));
  }
  std::atomic<std::uint64_t> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&, thread] {
        SampleStore& store = *stores[thread % 3];
        Bytes buffer;
        for (std::uint64_t i = 0; i < kSamples; ++i) {
          const std::uint64_t sample = (i * 7 + thread * 50) % kSamples;
          const auto read = store.read(sample, buffer);
          if (!read) {
            store.keep(sample, content_of(sample));
          } else if (Bytes(read->begin(), read->end()) != content_of(sample)) {
            ++wrong;
          }
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(count_right(*stores[0], kSamples) == kSamples);
}

TEST_CASE("a disk that takes no more is noted once, and what was kept stays") {
  const TemporaryDirectory folder;
  std::vector<std::string> notes;
  const auto store = opened(subject(), place(folder.path), &notes);
  store->keep(0, content_of(0));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1U << 12U, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  for (std::uint64_t sample = 1; sample < 50; ++sample) store->keep(sample, content_of(sample));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0],
             Contains("data.cache.path") && Contains("too large") && Contains("images were added"));
  CHECK(has(*store, 0, content_of(0)));
  CHECK(count_right(*store, 100) == store->kept());
}

TEST_CASE("a store of another version is refused with the cure, and not changed") {
  const TemporaryDirectory folder;
  opened(subject(), place(folder.path))->keep(1, content_of(1));
  const auto path = stores_in(folder.path).at(0);
  const std::uint32_t version = GENERATE(0U, 2U);
  std::fstream file(path / "index", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);
  file.write(reinterpret_cast<const char*>(&version), sizeof(version));
  file.close();
  const auto store = SampleStore::open(subject(), place(folder.path), {});
  REQUIRE_FALSE(store);
  CHECK(store.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(store.error().message(), Contains("phub-worker cache clear") && Contains("version"));
  CHECK_THAT(look_at(path).status.message(), Contains("has version " + std::to_string(version)));
  CHECK(removed(path).ok());
}

TEST_CASE("a store that a crash has left without its contents is made anew, and that is noted") {
  const TemporaryDirectory folder;
  opened(subject(), place(folder.path))->keep(1, content_of(1));
  const auto path = stores_in(folder.path).at(0);
  SECTION("an empty index") { std::filesystem::resize_file(path / "index", 0); }
  SECTION("an index of zeros") {
    const auto size = std::filesystem::file_size(path / "index");
    std::filesystem::resize_file(path / "index", 0);
    std::filesystem::resize_file(path / "index", size);
  }
  SECTION("no index") { std::filesystem::remove(path / "index"); }
  SECTION("no data") { std::filesystem::remove(path / "data"); }
  SECTION("nothing") {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  std::vector<std::string> notes;
  const auto store = opened(subject(), place(folder.path), &notes);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("is damaged") && Contains("made anew"));
  CHECK_FALSE(store->find(1));
  store->keep(1, content_of(1));
  CHECK(has(*store, 1, content_of(1)));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 2);  // and the lock
}

TEST_CASE("nobody else may read copies of images") {
  const TemporaryDirectory directory;
  const auto folder = directory.path / "copies";
  REQUIRE(make_folder(folder, false).ok());
  opened(subject(), place(folder))->keep(1, content_of(1));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path)) {
    if (entry.is_directory() && entry.path() != folder) continue;  // below it
    struct stat found {};
    REQUIRE(::lstat(entry.path().c_str(), &found) == 0);
    CAPTURE(entry.path().native());
    CHECK((found.st_mode & 077) == 0);
  }
}

}  // namespace
}  // namespace phub::data::cache::test

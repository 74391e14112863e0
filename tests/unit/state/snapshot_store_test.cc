// A folder of snapshots: which are kept and where, and files that a stranger has written.
#include <sys/inotify.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>

#include "common/base/unique_fd.h"
#include "tests/support/server/snapshot_example.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

// Whether somebody opens the file meanwhile.
template <typename Do>
bool is_opened(const fs::path& path, Do todo) {
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  REQUIRE(::inotify_add_watch(watch.get(), path.c_str(), IN_OPEN) >= 0);
  todo();
  std::array<char, 4096> events = {};
  return ::read(watch.get(), events.data(), events.size()) > 0;
}

std::string write_for(SnapshotStore& store, std::uint32_t tenant_id, const std::string& job,
                      std::uint64_t round = 7) {
  Example example;
  example.spec.name = job;
  example.copied.layout.tenant = tenant_id == 0 ? "default" : "t" + std::to_string(tenant_id);
  example.copied.layout.tenant_id = tenant_id;
  auto copy = std::move(*JobCopy::create(example.plan(), 0, 1));
  copy->round = round;
  example.copied.copy = copy;
  return store.write(example.spec, example.copied).value().file;
}

}  // namespace

TEST_CASE("who lists snapshots reads its own files only, and each once") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  const fs::path own = folder.path / "s" / write_for(*store, 1, "own");
  const fs::path other = folder.path / "s" / write_for(*store, 2, "other");
  const auto mine = [](std::optional<std::uint32_t> owner) { return owner == 1; };
  CHECK_FALSE(is_opened(other, [&] { CHECK(store->list(mine).size() == 1); }));
  CHECK_FALSE(is_opened(own, [&] { CHECK(store->list(mine).front().job == "own"); }));
  CHECK(is_opened(other, [&] { CHECK(store->list().size() == 2); }));
  CHECK_FALSE(is_opened(other, [&] { CHECK(store->list().back().job == "other"); }));
  // Another file under the name is read again, and one that is gone is forgotten.
  fs::remove(own);
  fs::copy_file(other, own);
  CHECK(store->list(mine).front().job == "other");
  fs::remove(own);
  CHECK(store->list(mine).empty());
  folder.write("s/t1~1/x.000000000001.safetensors", "no snapshot");
  const fs::path damaged = folder.path / "s/t1~1/x.000000000001.safetensors";
  CHECK(store->list(mine).empty());
  CHECK_FALSE(is_opened(damaged, [&] { CHECK(store->list(mine).empty()); }));
}

TEST_CASE("snapshots expire with their job: what a live job needs stays") {
  using std::chrono::seconds;
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  const std::string live = write_for(*store, 1, "live");
  const std::string same_name = write_for(*store, 2, "live");
  const std::string start = write_for(*store, 1, "start");
  const std::string over = write_for(*store, 1, "over");
  const std::string fresh = write_for(*store, 1, "fresh");
  fs::create_directory(folder.path / "s" / "kept by hand");
  const fs::path by_hand = folder.path / "s" / "kept by hand" / "x.000000000001.safetensors";
  fs::copy_file(folder.path / "s" / over, by_hand);
  const auto hour_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string& file : {live, same_name, start, over}) {
    fs::last_write_time(folder.path / "s" / file, hour_ago);
  }
  fs::last_write_time(by_hand, hour_ago);
  const std::vector<server::NeededSnapshots> needed = {
      {.tenant_id = 1, .job = "live"},
      {.tenant_id = 1, .job = "waits", .starts_from = start},
      {.tenant_id = 1, .job = "ove"}};
  CHECK(store->expire(seconds(7200), needed).empty());
  CHECK(store->expire(seconds(1800), needed) == std::vector<std::string>{over, same_name});
  CHECK(store->list().size() == 4);
  CHECK(fs::exists(by_hand));
}

TEST_CASE("a byte that flips in the file is found before the snapshot is used") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  const Example example;
  SnapshotInfo info;
  fs::path path;
  for (const std::streamoff from_the_end : {100'000, 4, 1}) {  // the last value's, too
    info = std::move(*store->write(example.spec, example.copied));
    CHECK(store->verify(info.file));
    path = folder.path / "s" / info.file;
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(info.bytes) - from_the_end);
    stream.put('\x55');
    stream.close();
    CHECK_THAT(store->verify(info.file).error().message(), Contains("it is damaged"));
    CHECK(store->load(info.file, example.plan(), 0).error().code() == Code::kDataLoss);
  }
  fs::resize_file(path, info.bytes - 1);
  CHECK(store->verify(info.file).error().code() == Code::kDataLoss);
}

TEST_CASE("the last snapshots of each job are kept, by when they were taken") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 2);
  const auto write = [&](const std::string& job, std::uint64_t round) {
    Example example;
    example.spec.name = job;
    auto copy = std::move(*JobCopy::create(example.plan(), 0, 1));
    copy->round = round;
    example.copied.copy = copy;
    return store->write(example.spec, example.copied).value().file;
  };
  write("demo.old", 1);
  for (const std::uint64_t round : {8U, 9U, 10U}) write("demo", round);
  CHECK(store->list().size() == 3);
  CHECK(store->list().front().round == 9);
  // Trained anew under its old name: its rounds begin again, what is new is not the oldest.
  const std::string anew = write("demo", 2);
  CHECK(store->verify(anew));
  CHECK(store->list().size() == 3);
  write("demo", 3);
  CHECK(store->verify(anew));
  CHECK(store->list().front().round == 2);
}

TEST_CASE("snapshots that workers asked for are counted apart from the others") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 2);
  const auto write = [&](const std::string& job, std::uint64_t round, Asker asked_by) {
    Example example;
    example.spec.name = job;
    auto copy = std::move(*JobCopy::create(example.plan(), 0, 1));
    copy->round = round;
    example.copied.copy = copy;
    return store->write(example.spec, example.copied, asked_by).value().file;
  };
  const std::string kept = write("demo", 3, Asker::kAdministrator);
  const std::string other = write("demo.worker", 3, Asker::kAdministrator);
  for (const std::uint64_t round : {3U, 4U, 5U}) write("demo", round, Asker::kWorker);
  CHECK(store->list().size() == 4);
  CHECK(store->verify(kept));
  for (const std::uint64_t round : {6U, 7U}) write("demo", round, Asker::kAdministrator);
  CHECK_FALSE(store->verify(kept));
  CHECK(store->verify(other));
  const auto all = store->list();
  REQUIRE(all.size() == 5);
  CHECK(all[0].file == "default/demo.000000000004.worker.safetensors");
  CHECK(all[1].round == 5);
}

TEST_CASE("whatever a job and its tenant are called, their files are below the folder") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 1);
  const std::vector<std::string> names = {"../../etc",
                                          ".",
                                          "..",
                                          "a/b",
                                          "%2E",
                                          "ä ö'",
                                          std::string(256, 'x'),
                                          std::string(255, '/') + "1",
                                          std::string(255, '/') + "2"};
  for (const std::string& name : names) {
    for (const std::string& tenant : {std::string("default"), std::string("../x")}) {
      INFO(name);
      Example example;
      example.spec.name = name;
      example.copied.layout.tenant = tenant;
      example.copied.layout.tenant_id = tenant == "default" ? 0 : 7;
      const auto info = store->write(example.spec, example.copied);
      REQUIRE(info);
      CHECK(SnapshotStore::tenant_id_of(info->file) == example.copied.layout.tenant_id);
      const auto head = store->verify(info->file);
      REQUIRE(head);
      CHECK(head->spec.name == name);
      CHECK(head->tenant == tenant);
    }
  }
  CHECK(store->list().size() == 2 * names.size());
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("keys whose tensors would have one name are refused instead of lost") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 1);
  for (const char* const name : {"a.state", "__metadata__"}) {
    Example example;
    example.spec.keys[1].name = name;
    const auto info = store->write(example.spec, example.copied);
    REQUIRE_FALSE(info);
    CHECK(info.error().code() == Code::kFailedPrecondition);
    CHECK_THAT(info.error().message(), Contains(name));
  }
  CHECK(store->list().empty());
}

TEST_CASE("no name leads to a file that the folder does not list") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 1);
  const Example example;
  const SnapshotInfo info = std::move(*store->write(example.spec, example.copied));
  fs::copy_file(folder.path / "s" / info.file, folder.path / "x");
  fs::copy_file(folder.path / "s" / info.file, folder.path / "s" / "y");
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("../x"), std::string("default/../../x"),
        std::string("default/.."), std::string("./y"), std::string("y"), std::string("/y"),
        std::string("default/"), info.file + "/", "/" + info.file, "./" + info.file,
        (folder.path / "x").string(), info.file + std::string(1, '\0')}) {
    INFO(name);
    CHECK(store->verify(name).error().code() == Code::kNotFound);
    CHECK(store->load(name, example.plan(), 0).error().code() == Code::kNotFound);
  }
  folder.write("s/default/z.safetensors", "no snapshot");
  CHECK(store->verify("default/z.safetensors").error().code() == Code::kDataLoss);
  CHECK(store->list().size() == 1);
}

TEST_CASE("metadata of a hostile file is refused without reading outside of it") {
  const TemporaryDirectory folder;
  const auto with_length = [](std::uint64_t length, const std::string& rest) {
    std::string bytes;
    for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
    return bytes + rest;
  };
  const auto read = [&](const std::string& bytes) {
    folder.write("m", bytes);
    return read_safetensors_metadata(folder.path / "m");
  };
  const auto header = [&](const std::string& text) { return with_length(text.size(), text); };
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::string> hostile = {"",
                                            "1234567",
                                            with_length(kMax, "{}"),
                                            with_length(kMax - 7, "{}"),
                                            with_length(3, "{}"),
                                            with_length(1, ""),
                                            header(""),
                                            header("{"),
                                            header("[]"),
                                            header("null"),
                                            header(std::string(100'000, '[')),
                                            header(std::string(100'000, '{')),
                                            header(R"({"__metadata__":1})"),
                                            header(R"({"__metadata__":["a"]})"),
                                            header(R"({"__metadata__":{"a":1}})"),
                                            header(R"({"__metadata__":{"a":{"b":"c"}}})"),
                                            header("{\"__metadata__\":{\"a\":\"\xFF\"}}")};
  for (const std::string& bytes : hostile) {
    INFO(bytes.substr(0, 100));
    const auto metadata = read(bytes);
    REQUIRE_FALSE(metadata);
    CHECK(metadata.error().code() == Code::kDataLoss);
  }
  CHECK(read(header("{}"))->empty());
  CHECK(read(header(R"({"__metadata__":{"a":"b"}})"))->at("a") == "b");
  CHECK_FALSE(read_safetensors_metadata(folder.path));
  CHECK(read_safetensors_metadata(folder.path / "none").error().code() == Code::kNotFound);
}

}  // namespace phub::testing

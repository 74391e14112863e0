// Snapshots as files: what comes back, what is refused, which are kept and where.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>

#include "server/snapshot/snapshot_file.h"
#include "server/snapshot/snapshot_store.h"
#include "tests/unit/temporary_directory.h"

namespace phub::testing {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): what the test is about
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

// A job whose parameters are the arena's element numbers, plus a part that 16 bits cannot hold;
// what one of its servers has of it.
struct Example {
  explicit Example(std::vector<std::uint32_t> cores = {1}, DataType wire = DataType::kFloat32,
                   std::uint32_t server = 0) {
    spec.name = "demo";
    spec.wire_type = wire;
    spec.rule = RuleKind::kMomentum;
    spec.keys = {{"a", 50'000}, {"b", 7}, {"c", 20'001}};
    auto made = std::make_shared<Plan>(std::move(*make_plan(plan_input(spec, cores))));
    copied.shape.plan = made;
    copied.shape.rule = spec.rule;
    auto filled = std::move(*JobCopy::create(*made, server, true));
    filled->round = 7;
    for (const Chunk& chunk : made->chunks) {
      if (chunk.server == server) fill(*filled, chunk);
    }
    copied.copy = filled;
  }
  static void fill(const JobCopy& copy, const Chunk& chunk) {
    for (std::uint64_t i = chunk.arena_offset; i < chunk.arena_offset + chunk.elements; ++i) {
      *copy.parameters_at(i) = static_cast<float>(i) + 0.25F;
      *copy.state_at(i) = -static_cast<float>(i) - 0.0625F;
    }
  }
  const Plan& plan() const { return *copied.shape.plan; }
  TensorFile file(std::uint32_t server = 0) const {
    return snapshot_file(
        {.spec = spec, .tenant = "red", .round = 7, .created = "now", .sha256 = {}}, *copied.copy,
        plan(), server);
  }
  JobSpec spec;
  CopiedJob copied;
};

bool has_all(const JobCopy& copy, const Plan& plan, std::uint32_t server) {
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server != server) continue;
    for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
      const Segment& segment = plan.segments[chunk.first_segment + i];
      for (std::uint64_t e = 0; e < segment.elements; ++e) {
        const std::uint64_t at = plan.key_offset[segment.key] + segment.key_offset + e;
        if (*copy.parameters_at(at) != static_cast<float>(at) + 0.25F) return false;
        if (*copy.state_at(at) != -static_cast<float>(at) - 0.0625F) return false;
      }
    }
  }
  return true;
}

Result<SnapshotHead> checked(const TensorFile& file) {
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, head_of(file));
  PHUB_RETURN_IF_ERROR(verify(file, head));
  return head;
}

}  // namespace

TEST_CASE("a snapshot comes back as it was, in fp32 whatever the wire type") {
  for (const DataType wire : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    const Example example({2}, wire);
    const TensorFile file = example.file();
    CHECK(file.find("a")->values.size() == 50'000);
    CHECK(file.find("c.state")->values.size() == 20'001);
    const auto head = checked(file);
    REQUIRE(head);
    CHECK(head->tenant == "red");
    CHECK(head->round == 7);
    CHECK(compare(example.spec, head->spec).ok());
    const auto copy = job_copy_from(file, *head, example.plan(), 0);
    REQUIRE(copy);
    CHECK((*copy)->round == 7);
    CHECK(has_all(**copy, example.plan(), 0));
  }
}

TEST_CASE("two servers write their runs of a key, and one server says which tensor it lacks") {
  for (const std::uint32_t server : {0U, 1U}) {
    const Example example({1, 2}, DataType::kFloat32, server);
    const TensorFile file = example.file(server);
    const auto head = std::move(*checked(file));
    const auto copy = job_copy_from(file, head, example.plan(), server);
    REQUIRE(copy);
    CHECK(has_all(**copy, example.plan(), server));
    const bool has_run = std::any_of(
        file.tensors.begin(), file.tensors.end(),
        [](const NamedTensor& tensor) { return tensor.name.find("[") != std::string::npos; });
    CHECK(has_run);
    const auto alone = job_copy_from(file, head, Example().plan(), 0);
    REQUIRE_FALSE(alone);
    CHECK(alone.error().code() == Code::kFailedPrecondition);
    CHECK_THAT(alone.error().message(), Contains("it has no tensor a of 50000 elements"));
    CHECK_FALSE(job_copy_from(file, head, example.plan(), 1 - server));
  }
}

TEST_CASE(
    "the part of one of several servers says what its plan was made with, and a whole does not") {
  SnapshotHead head{.spec = Example().spec,
                    .tenant = "red",
                    .round = 7,
                    .created = "now",
                    .sha256 = {},
                    .core_load_bytes = {70'000, 0}};
  const Example parts({1, 2});
  TensorFile file = snapshot_file(head, *parts.copied.copy, parts.plan(), 1);
  CHECK(checked(file)->core_load_bytes == head.core_load_bytes);
  file.metadata["core_load_bytes"] = "70000,x";
  CHECK_THAT(checked(file).error().message(), Contains("core_load_bytes are \"70000,x\""));
  const Example whole({2});
  const TensorFile alone = snapshot_file(head, *whole.copied.copy, whole.plan(), 0);
  CHECK(checked(alone)->core_load_bytes.empty());
}

TEST_CASE("what is damaged, of another version, or no snapshot is refused with the reason") {
  const auto refused = [](const TensorFile& file, const std::string& reason) {
    const auto head = checked(file);
    REQUIRE_FALSE(head);
    CHECK(head.error().code() == Code::kDataLoss);
    CHECK_THAT(head.error().message(), Contains(reason));
  };
  const TensorFile good = Example().file();
  refused({}, "is it a snapshot?");
  TensorFile file = good;
  file.tensors[1].values[3] = 5.0F;
  refused(file, "it is damaged");
  file = good;
  file.tensors[0].name = "other";
  refused(file, "it is damaged");
  const std::vector<std::array<std::string, 3>> changes = {
      {"version", "2", "reads phub-snapshot of version 1"},
      {"format", "pt", "it is a \"pt\""},
      {"round", "0", "no number above 0"},
      {"round", "7x", "no number above 0"},
      {"round", "99999999999999999999", "no number above 0"},
      {"job", "{", "no JobSpec"},
      {"job", "{}", ""},
      {"sha256", "", "it is damaged"}};
  for (const auto& [key, value, reason] : changes) {
    INFO(key << " " << value);
    file = good;
    file.metadata[key] = value;
    refused(file, reason);
    file.metadata.erase(key);
    refused(file, "its metadata has no " + key);
  }
}

TEST_CASE("a byte that flips in the file is found before the snapshot is used") {
  const TemporaryDirectory folder;
  const auto store = std::move(*SnapshotStore::create(folder.path / "s", 3));
  const Example example;
  const SnapshotInfo info = std::move(*store->write(example.spec, example.copied));
  CHECK(store->verify(info.file));
  const fs::path path = folder.path / "s" / info.file;
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(info.bytes) - 100'000);
  stream.put('\x55');
  stream.close();
  CHECK_THAT(store->verify(info.file).error().message(), Contains("it is damaged"));
  CHECK(store->load(info.file, example.plan(), 0).error().code() == Code::kDataLoss);
  fs::resize_file(path, info.bytes - 1);
  CHECK(store->verify(info.file).error().code() == Code::kDataLoss);
}

TEST_CASE("the last snapshots of each job are kept, by when they were taken") {
  const TemporaryDirectory folder;
  const auto store = std::move(*SnapshotStore::create(folder.path / "s", 2));
  const auto write = [&](const std::string& job, std::uint64_t round) {
    Example example;
    example.spec.name = job;
    auto copy = std::move(*JobCopy::create(example.plan(), 0, true));
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
  const auto store = std::move(*SnapshotStore::create(folder.path / "s", 2));
  const auto write = [&](const std::string& job, std::uint64_t round, Asker asked_by) {
    Example example;
    example.spec.name = job;
    auto copy = std::move(*JobCopy::create(example.plan(), 0, true));
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
  const auto store = std::move(*SnapshotStore::create(folder.path / "s", 1));
  const std::vector<std::string> names = {"../../etc",
                                          ".",
                                          "..",
                                          "a/b",
                                          "%2E",
                                          "ä ö\"'\\",
                                          std::string(256, 'x'),
                                          std::string(255, '/') + "1",
                                          std::string(255, '/') + "2"};
  for (const std::string& name : names) {
    for (const std::string& tenant : {std::string("default"), std::string("../x")}) {
      INFO(name);
      Example example;
      example.spec.name = name;
      example.copied.shape.tenant = tenant;
      const auto info = store->write(example.spec, example.copied);
      REQUIRE(info);
      CHECK(SnapshotStore::tenant_of(info->file) == tenant);
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
  const auto store = std::move(*SnapshotStore::create(folder.path / "s", 1));
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
  const auto store = std::move(*SnapshotStore::create(folder.path / "s", 1));
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

// Snapshots and the disk: many keys, quotas, limits, whose folders, what a kill leaves behind.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "server/jobs/table.h"
#include "server/snapshot/snapshotter.h"
#include "server/tenants/principal.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/job_replies.h"
#include "tests/support/server/snapshot_example.h"
#include "tests/support/server/tenants_in_memory.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a job of 100,000 keys is written, listed and restored in one go") {
  Example example;
  example.spec.keys.clear();
  for (int i = 0; i < 100'000; ++i) {
    example.spec.keys.push_back({"encoder.layer." + std::to_string(i) + ".weight", 3});
  }
  auto plan = std::make_shared<Plan>(std::move(*make_plan(plan_input(example.spec, {2}))));
  example.copied.layout.plan = plan;
  auto copy = std::move(*JobCopy::create(*plan, 0, 1));
  copy->round = 7;
  for (const Chunk& chunk : plan->chunks) Example::fill(*copy, chunk);
  example.copied.copy = copy;
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 1);
  const auto info = store->write(example.spec, example.copied);
  REQUIRE(info);
  CHECK(info->bytes > std::uint64_t{16} << 20);
  CHECK(store->list().size() == 1);
  const auto restored = store->load(info->file, *plan, 0);
  REQUIRE(restored);
  CHECK(has_all(**restored, *plan, 0));
  SnapshotHead head = example.head();
  head.tenant = "default";
  head.created = info->created;
  const auto expected = snapshot_bytes(head, *plan, 0);
  REQUIRE(expected);
  CHECK(*expected >= info->bytes);
  CHECK(*expected < info->bytes + 1000);
}

TEST_CASE("the room for a snapshot has that of the number of rounds that were left out") {
  const bool votes = GENERATE(true, false);
  Example example;
  if (votes) example.spec.loss_scale = {LossScaling::kVoted, 1.0F};
  if (!votes) example.spec.clip_norm = 1.0F;
  auto copy = std::move(*JobCopy::create(example.plan(), 0, 1));
  copy->round = 1'000'000'000'000'000'000;
  copy->note_left_out(copy->round / 10);
  for (const Chunk& chunk : example.plan().chunks) Example::fill(*copy, chunk);
  example.copied.copy = copy;
  const TemporaryDirectory folder;
  const auto info = store_in(folder.path / "s", 1)->write(example.spec, example.copied);
  REQUIRE(info);
  SnapshotHead head = example.head();
  head.tenant = "default";
  head.created = info->created;
  CHECK(snapshot_bytes(head, example.plan(), 0).value() >= info->bytes);
}

TEST_CASE("what could not be read back is refused before a byte is written") {
  Example example;
  example.spec.keys.clear();
  for (int i = 0; i < 110'000; ++i) {
    std::string name = std::to_string(i);
    name.resize(256, 'x');
    example.spec.keys.push_back({name, 1});
  }
  auto plan = std::make_shared<Plan>(std::move(*make_plan(plan_input(example.spec, {1}))));
  example.copied.layout.plan = plan;
  auto copy = std::move(*JobCopy::create(*plan, 0, 1));
  copy->round = 7;
  example.copied.copy = copy;
  const auto refused = snapshot_bytes(example.head(), *plan, 0);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Contains("at most 100000000 can be read back"));
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 1);
  CHECK(store->write(example.spec, example.copied).error().code() == Code::kFailedPrecondition);
  CHECK(fs::is_empty(folder.path / "s" / "default"));
}

TEST_CASE("a tenant's snapshots on the disk and under way are within its quota") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  const Tenant red{.id = 3, .name = "red", .quotas = {.disk_mib = 2}};
  const Tenant blue{.id = 4, .name = "blue", .quotas = {.disk_mib = 2}};
  Example example;
  example.copied.layout.tenant = "red";
  example.copied.layout.tenant_id = 3;
  const std::uint64_t bytes = snapshot_bytes(example.head(), example.plan(), 0).value();
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  {
    const auto room = store->admit(red, bytes);
    REQUIRE(room);
    REQUIRE(store->write(example.spec, example.copied));
  }
  CHECK(store->bytes_of(red) > kMebibyte / 2);
  CHECK(store->bytes_of(red) <= bytes);
  const auto second = store->admit(red, kMebibyte);
  REQUIRE(second);
  const auto refused = store->admit(red, kMebibyte);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kResourceExhausted);
  CHECK_THAT(refused.error().message(), Contains("needs 1 MiB") &&
                                            Contains("\"red\" has 2 MiB of its quota of 2 MiB") &&
                                            Contains("--disk-mib"));
  CHECK(store->admit(blue, 2 * kMebibyte));
  CHECK_FALSE(store->admit(blue, 2 * kMebibyte + 1));
  CHECK(store->admit({.quotas = {}}, 100 * kMebibyte));
}

TEST_CASE(
    "all snapshots together are within the server's limit, and leave the disk room to spare") {
  const TemporaryDirectory folder;
  const auto store = std::move(*SnapshotStore::create(
      {.folder = folder.path / "s", .kept = 3, .limit_bytes = std::uint64_t{3} << 20}));
  const auto first = store->admit({.id = 1, .name = "a"}, std::uint64_t{2} << 20);
  REQUIRE(first);
  CHECK_THAT(store->admit({.id = 2, .name = "b"}, std::uint64_t{2} << 20).error().message(),
             Contains("2 MiB of the 3 MiB of snapshots_limit_mib"));
  CHECK(store->admit({.id = 2, .name = "b"}, std::uint64_t{1} << 20));
  CHECK_FALSE(store->admit({.id = 2, .name = "b"}, (std::uint64_t{1} << 20) + 1));
  const auto unlimited = store_in(folder.path / "t", 3);
  const std::uint64_t all = fs::space(folder.path).available;
  CHECK_THAT(unlimited->admit({}, all).error().message(), Contains("16 MiB to spare"));
}

TEST_CASE("a job that waits without workers becomes the one that is restored under its name") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  TenantsInMemory tenants;
  const Tenant red = tenants.create("red", {.jobs = 1}).value();
  Example example;
  example.spec.workers = 2;
  example.copied.layout.tenant = red.name;
  example.copied.layout.tenant_id = red.id;
  const std::string file = store->write(example.spec, example.copied).value().file;
  JobTable table({.tenants = &tenants, .snapshots = store.get()});
  FakeDataPlane data_plane(1);
  table.attach(data_plane);
  JobSpec created = example.spec;
  created.keys.clear();
  const Digest nonce{1};
  const std::uint64_t id = table.life.create(created, "red", nonce).value();
  CHECK(table.life.create(created, "red").error().code() == Code::kAlreadyExists);
  JobSpec wide = example.spec;
  wide.workers = 4;
  REQUIRE(table.life.admit_restored(wide, "red", 1).ok());
  CHECK(table.life.create(wide, "red", std::nullopt, file).value() == id);
  CHECK(table.views.inspect({"red", "demo"}, 0)->spec->workers == 4);
  CHECK(table.views.inspect({"red", "demo"}, 0)->spec->keys.size() == example.spec.keys.size());
  CHECK(table.views.tenant_of(server::Ticket{.job_id = id, .nonce_hash = nonce}).value() == "red");
  CHECK(table.views.needed_snapshots().front().starts_from == file);
  REQUIRE(table.members.join({.spec = std::make_shared<const JobSpec>(wide),
                              .tenant = "red",
                              .worker_index = -1,
                              .host = "host"}));
  for (const Status& refused : {table.life.admit_restored(wide, "red", 1),
                                table.life.create(wide, "red", std::nullopt, file).error()}) {
    CHECK(refused.code() == Code::kAlreadyExists);
    CHECK_THAT(refused.message(), Contains("workers have joined it"));
  }
}

TEST_CASE("a tenant has so many snapshots at most, and is told the figures") {
  const TemporaryDirectory folder;
  const auto store =
      std::move(*SnapshotStore::create({.folder = folder.path / "s", .files_of_tenant = 2}));
  const Tenant tenant{.id = 1, .name = "a"};
  fs::create_directory(folder.path / "s" / "a~1");
  folder.write("s/a~1/x.000000000001.safetensors", "x");
  {
    const auto under_way = store->admit(tenant, 1);
    REQUIRE(under_way);
    const Status refused = store->admit(tenant, 1).error();
    CHECK(refused.code() == Code::kResourceExhausted);
    CHECK_THAT(refused.message(), Contains("\"a\" has 2 snapshots") && Contains("allows 2") &&
                                      Contains("phubctl snapshot delete"));
    CHECK(store->admit({.id = 2, .name = "b"}, 1));
  }
  CHECK(store->admit(tenant, 1));
}

TEST_CASE("what a killed process left half written is gone at the next start, and is no snapshot") {
  const TemporaryDirectory folder;
  { const auto store = store_in(folder.path / "s", 3); }
  fs::create_directory(folder.path / "s" / "red~3");
  folder.write("s/red~3/demo.000000000007.safetensors.tmp.99.0", "half");
  folder.write("s/red~3/demo.000000000006.safetensors", "whole");
  const auto store = store_in(folder.path / "s", 3);
  CHECK_FALSE(fs::exists(folder.path / "s/red~3/demo.000000000007.safetensors.tmp.99.0"));
  CHECK(fs::exists(folder.path / "s/red~3/demo.000000000006.safetensors"));
}

TEST_CASE("a folder is one tenant's by its id, and any other is no tenant's") {
  CHECK(SnapshotStore::tenant_id_of("default/x") == 0U);
  CHECK(SnapshotStore::tenant_id_of("red~3/x") == 3U);
  for (const char* const file :
       {"red/x", "red~/x", "red~0/x", "red~3x/x", "red~-1/x", "red~99999999999/x", "x", ""}) {
    CHECK_FALSE(SnapshotStore::tenant_id_of(file));
  }
  const Principal red{.role = Role::kTenant, .tenant = "red", .tenant_id = 3};
  CHECK(can_see(red, std::optional<std::uint32_t>(3)));
  CHECK_FALSE(can_see(red, std::optional<std::uint32_t>(4)));
  CHECK_FALSE(can_see(red, std::optional<std::uint32_t>()));
  CHECK(can_see({.role = Role::kAdmin}, std::optional<std::uint32_t>()));
}

TEST_CASE("a pipe is no snapshot, and nobody waits for it") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(SafetensorsReader::open(path).error().message(), Contains("no regular file"));
}

TEST_CASE("a snapshot without room on the disk, or that could not be read back, is not copied") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  FakeDataPlane data_plane(1);  // knows no job: whoever copies one is told so
  Snapshotter snapshotter(data_plane, *store);
  const Example example;
  SnapshotOrder order{.job_id = 1,
                      .label = "red/demo",
                      .spec = std::make_shared<const JobSpec>(example.spec),
                      .tenant = {.id = 3, .name = "red", .quotas = {.disk_mib = 1}},
                      .plan = example.copied.layout.plan};
  CHECK(snapshotter.take(order).error().code() == Code::kNotFound);
  const auto other = store->admit(order.tenant, std::uint64_t{1} << 19);
  REQUIRE(other);
  const Status refused = snapshotter.take(order).error();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Contains("job \"red/demo\"") && Contains("quota of 1 MiB"));
}

TEST_CASE("what a restored job starts from counts with it while it is read, and not later") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  TenantsInMemory tenants;
  const Tenant red = tenants.create("red", {.memory_mib = 1}).value();
  Example example;
  example.copied.layout.tenant = red.name;
  example.copied.layout.tenant_id = red.id;
  const std::string file = store->write(example.spec, example.copied).value().file;
  JobTable table({.tenants = &tenants, .snapshots = store.get()});
  FakeDataPlane data_plane(1);
  table.attach(data_plane);
  CHECK(table.life.admit_restored(example.spec, "red", std::uint64_t{1} << 20).ok());
  const Status large = table.life.admit_restored(example.spec, "red", std::uint64_t{3} << 20);
  CHECK_THAT(large.message(), Contains("the restored job needs 3 MiB"));
  REQUIRE(table.life.create(example.spec, "red", std::nullopt, file));
  CHECK(table.life.admit_restored(example.spec, "red", 1).ok());  // nobody has joined it
  const auto member = table.members.join({.spec = std::make_shared<const JobSpec>(example.spec),
                                          .tenant = "red",
                                          .worker_index = -1,
                                          .host = "host"});
  REQUIRE(member);
  const Topology topology{.cores_per_server = {1}};
  const Status refused = ready_now(table, *member, topology, example.plan().hash);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Contains("needs 2 MiB"));
  REQUIRE(tenants.set("red", {.memory_mib = 2}));
  REQUIRE(ready_now(table, *member, topology, example.plan().hash).ok());
  // Parameters and momentum, with the job's tables, and not what was read once more.
  const std::uint64_t values = 2 * 70'008 * sizeof(float);
  CHECK(table.usage.of("red").memory_bytes > values);
  CHECK(table.usage.of("red").memory_bytes < 2 * values);
  CHECK(data_plane.layout(member->job_id)->rounds_before == 6);
}

TEST_CASE("a snapshot that is deleted counts no more, and nothing but a snapshot can be deleted") {
  const TemporaryDirectory folder;
  const auto store = store_in(folder.path / "s", 3);
  Example example;
  const auto info = store->write(example.spec, example.copied);
  REQUIRE(info);
  const Tenant owner{};
  REQUIRE(store->bytes_of(owner) == info->bytes);
  const fs::path tenant = folder.path / "s" / fs::path(info->file).parent_path();
  std::ofstream(tenant / "notes.txt") << "mine";
  std::ofstream(folder.path / "outside.safetensors") << "mine";
  for (const std::string& file :
       {std::string("default/nosuch.safetensors"), std::string("default/notes.txt"),
        std::string("default/"), std::string("default"), std::string(), std::string(".."),
        std::string("default/../../outside.safetensors"), std::string("../outside.safetensors")}) {
    INFO(file);
    CHECK(store->remove(file).error().code() == Code::kNotFound);
  }
  CHECK(fs::exists(tenant / "notes.txt"));
  CHECK(fs::exists(folder.path / "outside.safetensors"));
  CHECK(store->remove(info->file).value() == info->bytes);
  CHECK(store->list().empty());
  CHECK(store->bytes_of(owner) == 4);
  CHECK(store->remove(info->file).error().code() == Code::kNotFound);
}

}  // namespace phub::testing

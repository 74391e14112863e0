// The ports of a real data plane on a libibverbs in the process, with invented counters.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "server/plane/data_plane.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/transports/fake_verbs.h"

namespace phub::server {
namespace {

struct Nobody final : MembershipListener {
  std::optional<IssuedSecret> secret_of(std::uint64_t /*job_id*/, std::uint32_t /*epoch*/,
                                        std::uint32_t /*worker*/) override {
    return std::nullopt;
  }
  void on_connected(std::uint64_t /*job_id*/, std::uint32_t /*worker*/, std::uint32_t /*core*/,
                    std::string_view /*transport*/) override {}
  void on_lost(std::uint64_t /*job_id*/, std::uint32_t /*worker*/,
               std::string_view /*reason*/) override {}
};

}  // namespace

TEST_CASE("a data plane shows the ports of its cores as they are now") {
  const TemporaryDirectory sysfs;
  const std::string card = "class/infiniband/fake0";
  std::filesystem::create_directories(sysfs.path / card / "device");
  std::filesystem::create_directories(sysfs.path / card / "ports/1/hw_counters");
  sysfs.write(card + "/device/numa_node", "0\n");
  sysfs.write(card + "/ports/1/hw_counters/sent_pkts", "7\n");
  {
    Nobody nobody;
    DataPlaneOptions options;
    options.cores = 2;
    options.allow_oversubscription = true;
    options.verbs = OfferVerbs::kYes;
    options.sysfs_root = sysfs.path.string();
    const auto plane = std::move(*DataPlane::create(options, nobody));
    const auto before = plane->port_statuses();
    REQUIRE(before.size() == 1);
    CHECK(before[0].identity.device == "fake0");
    CHECK(before[0].identity.port == 1);
    CHECK(before[0].cores == std::vector<std::uint32_t>{0, 1});
    CHECK(before[0].numa_node == 0);
    CHECK(before[0].state == "active");
    CHECK(before[0].mtu_bytes == 4096);
    REQUIRE(before[0].counters.size() == 1);
    CHECK(before[0].counters[0].value == 7);

    fake_verbs::behaviour().port_active = false;
    sysfs.write(card + "/ports/1/hw_counters/sent_pkts", "9\n");
    const auto after = plane->port_statuses();
    fake_verbs::behaviour().port_active = true;
    CHECK(after[0].state == "down");
    CHECK(after[0].counters[0].value == 9);

    std::filesystem::remove_all(sysfs.path / "class");
    CHECK(plane->port_statuses()[0].counters.empty());
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("a core's port reaches those of its own kind in other racks, and others are named") {
  Nobody nobody;
  DataPlaneOptions options;
  options.cores = 1;
  options.allow_oversubscription = true;
  options.verbs = OfferVerbs::kYes;
  const auto plane = std::move(*DataPlane::create(options, nobody));
  const CorePort own = plane->verbs_ports().front();
  client::RdmaPort peer{.device = "mlx5_9", .link_layer = own.link_layer, .gid = own.gid};
  CHECK(plane->reaches(peer, 0).ok());
  peer.gid.type = transport::verbs::GidType::kInfiniBand;
  const Status apart = plane->reaches(peer, 0);
  CHECK(apart.code() == Code::kNotFound);
  CHECK_THAT(apart.message(), Catch::Contains("does not reach the other's mlx5_9"));
  CHECK_THAT(plane->reaches(peer, 1).message(), Catch::Contains("this server uses no RDMA"));
}

}  // namespace phub::server

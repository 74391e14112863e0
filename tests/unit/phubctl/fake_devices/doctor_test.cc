// What the doctor finds on invented machines, and that it reads what the kernel shows.
#include "server/phubctl/doctor/doctor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/transports/gid_tables.h"

namespace phub::doctor {
namespace {

using Catch::Contains;
using transport::verbs::device;
using transport::verbs::ethernet_port;
using transport::verbs::gid;
using transport::verbs::GidType;
using transport::verbs::infiniband_port;
using transport::verbs::usual_table;

Host healthy() {
  Host host;
  host.devices = {device("mlx5_0", {ethernet_port(usual_table())})};
  host.devices[0].numa_node = 1;
  host.kernel_devices = {"mlx5_0"};
  host.counters = {{"mlx5_0", 1, {{"symbol_error", 0}, {"np_cnp_sent", 12}, {"sent_pkts", 9}}}};
  host.numa_nodes = {{0, "0-7"}, {1, "8-15"}};
  host.huge_pages = {.anonymous = "madvise", .shared = "advise", .reserved = "0"};
  host.congestion_control = "cubic";
  host.congestion_controls = "reno cubic";
  return host;
}

Host without_rdma() {
  Host host = healthy();
  host.devices.clear();
  host.kernel_devices.clear();
  host.counters.clear();
  return host;
}

// The only one.
Finding only(const Findings& findings) {
  REQUIRE(findings.size() == 1);
  return findings[0];
}

bool has(const Findings& findings, Severity severity, const std::string& check) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.severity == severity && finding.check == check;
  });
}

Finding mtu(transport::verbs::Port port, std::uint32_t bytes) {
  Host host = healthy();
  port.mtu_bytes = bytes;
  host.devices[0].ports = {port};
  return only(check_mtu(host));
}

Finding memlock(std::uint64_t soft_bytes, std::uint64_t hard_bytes) {
  Host host = healthy();
  host.memlock = {.soft_bytes = soft_bytes, .hard_bytes = hard_bytes, .is_exempt = false};
  return only(check_memlock(host));
}

Findings counted(const std::vector<Counter>& counters) {
  Host host = healthy();
  host.counters = {{"mlx5_0", 1, counters}};
  return check_counters(host);
}

}  // namespace

TEST_CASE("a healthy machine has only good findings, one of every check") {
  const Findings findings = examine(healthy(), {});
  CHECK(severity_of(findings) == Severity::kOk);
  for (const char* check : {"device", "port", "choice", "gid", "mtu", "counters", "congestion",
                            "numa", "memlock", "huge pages", "tcp"}) {
    CHECK(has(findings, Severity::kOk, check));
  }
}

TEST_CASE("no RDMA is a warning with what to do without, and nothing else") {
  const Findings findings = examine(without_rdma(), {});
  CHECK(severity_of(findings) == Severity::kWarn);
  CHECK(findings[0].text == "no RDMA device");
  CHECK_THAT(findings[0].cure,
             Contains("tcp and shm") && Contains("rdma link add rxe0 type rxe netdev eth0"));
  CHECK(std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
          return finding.severity != Severity::kOk;
        }) == 1);
}

TEST_CASE("no RDMA is a failure when a device was asked for") {
  CHECK(has(examine(without_rdma(), {.devices = {"mlx5_0"}, .gid_index = {}}), Severity::kFail,
            "choice"));
}

TEST_CASE("a device that only the kernel has fails when it is the only one") {
  Host host = without_rdma();
  host.kernel_devices = {"mlx5_0"};
  const Finding finding = only(check_devices(host));
  CHECK(finding.severity == Severity::kFail);
  CHECK(finding.where == "mlx5_0");
  CHECK_THAT(finding.cure, Contains("ibverbs-providers") && Contains("/dev/infiniband"));
  host.devices = healthy().devices;
  host.kernel_devices = {"mlx5_0", "mlx5_1"};
  const Findings two = check_devices(host);
  CHECK(severity_of(two) == Severity::kWarn);
  CHECK(two[0].where == "mlx5_1");
}

TEST_CASE("a list of devices that cannot be had fails") {
  Host host = without_rdma();
  host.devices_error = "listing RDMA devices: Operation not permitted";
  const Finding finding = only(check_devices(host));
  CHECK(finding.severity == Severity::kFail);
  CHECK(finding.text == host.devices_error);
}

TEST_CASE("an unusable device is a warning, and a failure of the choice when it is the only one") {
  Host host = healthy();
  host.devices[0].unusable = "it speaks iWARP";
  CHECK(only(check_devices(host)).severity == Severity::kWarn);
  const Finding choice = only(check_choice(host, {}));
  CHECK(choice.severity == Severity::kFail);
  CHECK_THAT(choice.cure, Contains("mlx5_0 port 1: it speaks iWARP"));
}

TEST_CASE("a port that is not active is a warning with the cure of its link layer and state") {
  Host host = healthy();
  host.devices[0].ports = {down(ethernet_port(usual_table())), down(infiniband_port({}, 2)),
                           down(infiniband_port({}, 3))};
  host.devices[0].ports[2].state = "initialising";
  const Findings findings = check_ports(host);
  REQUIRE(findings.size() == 3);
  for (const Finding& finding : findings) CHECK(finding.severity == Severity::kWarn);
  CHECK_THAT(findings[0].text, Contains("down: Ethernet, 100 Gb/sec (4X EDR), interface eth0"));
  CHECK_THAT(findings[0].cure, Contains("ip link set dev eth0 up"));
  CHECK_THAT(findings[1].cure, Contains("ibportstate"));
  CHECK(findings[2].where == "mlx5_0/3");
  CHECK_THAT(findings[2].cure, Contains("opensm"));
  CHECK(severity_of(check_choice(host, {})) == Severity::kFail);
}

TEST_CASE("the GID that would be used is shown with its reason") {
  const Findings findings = check_choice(healthy(), {});
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].where == "mlx5_0/1");
  CHECK(findings[1].text == "index 3, RoCE v2 ::ffff:10.0.0.5: chosen: RoCE v2, routable IPv4");
}

TEST_CASE("a forced GID is heeded, and fails when it is not there") {
  CHECK_THAT(check_choice(healthy(), {.devices = {}, .gid_index = 2})[1].text,
             Contains("index 2, RoCE v1") && Contains("verbs_gid_index"));
  const Finding missing = check_choice(healthy(), {.devices = {}, .gid_index = 9})[1];
  CHECK(missing.severity == Severity::kFail);
  CHECK_THAT(missing.cure, Contains("verbs_gid_index") && Contains("index 9"));
}

TEST_CASE("RoCE v1 and link-local GIDs are warnings, InfiniBand's usual prefix is not") {
  Host host = healthy();
  host.devices[0].ports = {ethernet_port({gid(0, GidType::kRoceV1, "::ffff:10.0.0.5")})};
  CHECK_THAT(check_choice(host, {})[1].cure, Contains("RoCE v1"));
  host.devices[0].ports = {ethernet_port({gid(0, GidType::kRoceV2, "fe80::1")})};
  const Finding finding = check_choice(host, {})[1];
  CHECK(finding.severity == Severity::kWarn);
  CHECK_THAT(finding.cure, Contains("ip address add ADDRESS/PREFIX dev eth0"));
  host.devices[0].ports = {infiniband_port({gid(0, GidType::kInfiniBand, "fe80::1", "")})};
  CHECK(check_choice(host, {})[1].severity == Severity::kOk);
}

TEST_CASE("an MTU without jumbo frames is a warning on Ethernet, less than 4096 on InfiniBand") {
  CHECK(mtu(ethernet_port({}), 4096).severity == Severity::kOk);
  CHECK(mtu(ethernet_port({}), 2048).severity == Severity::kOk);
  const Finding jumbo_off = mtu(ethernet_port({}), 1024);
  CHECK(jumbo_off.severity == Severity::kWarn);
  CHECK_THAT(jumbo_off.text, Contains("jumbo frames are off"));
  CHECK_THAT(jumbo_off.cure, Contains("ip link set dev eth0 mtu 9000") && Contains("switch"));
  CHECK_THAT(mtu(ethernet_port({}), 512).text, Contains("smaller than a standard frame"));
  CHECK(mtu(infiniband_port({}), 4096).severity == Severity::kOk);
  const Finding small = mtu(infiniband_port({}), 2048);
  CHECK(small.severity == Severity::kWarn);
  CHECK_THAT(small.cure, Contains("partitions.conf"));
}

TEST_CASE("the MTU of a port that is down is not judged") {
  Host host = healthy();
  host.devices[0].ports = {down(ethernet_port({}))};
  CHECK(check_mtu(host).empty());
}

TEST_CASE("little locked memory fails, some is a warning, no limit is fine") {
  constexpr std::uint64_t kMebibyte = 1024 * 1024;
  CHECK(memlock(kUnlimited, kUnlimited).severity == Severity::kOk);
  CHECK(memlock(64 * kMebibyte, 64 * kMebibyte).severity == Severity::kWarn);
  const Finding tiny = memlock(8 * kMebibyte, 8 * kMebibyte);
  CHECK(tiny.severity == Severity::kFail);
  CHECK_THAT(tiny.text, Contains("8.0 MiB"));
  CHECK_THAT(tiny.cure, Contains("LimitMEMLOCK=infinity") && Contains("limits.conf") &&
                            Contains("--ulimit memlock=-1"));
  CHECK_THAT(memlock(kMebibyte, kUnlimited).cure, Contains("ulimit -l unlimited"));
}

TEST_CASE("the limit of locked memory is no matter without RDMA or with the right to exceed it") {
  Host host = without_rdma();
  host.memlock = {.soft_bytes = 65536, .hard_bytes = 65536, .is_exempt = false};
  CHECK(only(check_memlock(host)).severity == Severity::kOk);
  host.devices = healthy().devices;
  CHECK(only(check_memlock(host)).severity == Severity::kFail);
  host.memlock.is_exempt = true;
  const Finding exempt = only(check_memlock(host));
  CHECK(exempt.severity == Severity::kOk);
  CHECK_THAT(exempt.text, Contains("64.0 KiB") && Contains("CAP_IPC_LOCK"));
}

TEST_CASE("transparent huge pages that are off are a warning, shared ones a hint") {
  Host host = healthy();
  CHECK(check_huge_pages(host).size() == 3);
  host.huge_pages = {.anonymous = "never", .shared = "never", .reserved = "512"};
  const Findings findings = check_huge_pages(host);
  CHECK(findings[0].severity == Severity::kWarn);
  CHECK_THAT(findings[0].cure, Contains("echo madvise >"));
  CHECK(findings[1].severity == Severity::kOk);
  CHECK_THAT(findings[1].cure, Contains("shmem_enabled"));
  CHECK_THAT(findings[2].text, Contains("512 of 2 MiB"));
  host.huge_pages = {};
  CHECK(only(check_huge_pages(host)).severity == Severity::kOk);
}

TEST_CASE("error counters that are not zero are warnings by cause, with their values") {
  const Findings findings = counted({{"symbol_error", 3},
                                     {"packet_seq_err", 0},
                                     {"local_ack_timeout_err", 12},
                                     {"out_of_sequence", 1},
                                     {"out_of_buffer", 7},
                                     {"port_rcv_packets", 1000}});
  REQUIRE(findings.size() == 3);
  for (const Finding& finding : findings) {
    CHECK(finding.severity == Severity::kWarn);
    CHECK(finding.where == "mlx5_0/1");
  }
  CHECK(findings[0].text == "link errors: symbol_error 3");
  CHECK_THAT(findings[0].cure, Contains("cable"));
  CHECK(findings[1].text == "losses: local_ack_timeout_err 12, out_of_sequence 1");
  CHECK_THAT(findings[1].cure, Contains("PFC") && Contains("ECN"));
  CHECK(findings[2].text == "receivers not ready: out_of_buffer 7");
}

TEST_CASE("counters of congestion are shown and are no errors") {
  const Findings findings = counted({{"np_ecn_marked_roce_packets", 5},
                                     {"port_xmit_wait", 9},
                                     {"rx_prio3_pause", 2},
                                     {"symbol_error", 0}});
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].text == "no errors; counters of them: 1");
  CHECK(findings[1].check == "congestion");
  CHECK(findings[1].severity == Severity::kOk);
  CHECK(findings[1].text == "np_ecn_marked_roce_packets 5, port_xmit_wait 9, rx_prio3_pause 2");
}

TEST_CASE("a port without counters has no finding") { CHECK(counted({}).empty()); }

TEST_CASE("the node of a device is shown with its CPUs, and a hint where there are several") {
  Host host = healthy();
  CHECK(only(check_numa(host)).text == "node 1, CPUs 8-15");
  CHECK_THAT(only(check_numa(host)).cure, Contains("`cpus`"));
  host.numa_nodes = {{0, "0-7"}};
  host.devices[0].numa_node = 0;
  CHECK(only(check_numa(host)).cure.empty());
  host.devices[0].numa_node = -1;
  CHECK(only(check_numa(host)).text == "belongs to no node");
}

TEST_CASE("tcp's congestion control is told as PHub uses it") {
  CHECK_THAT(only(check_tcp(healthy())).text,
             Contains("reno within the host, cubic to others") && Contains("reno cubic"));
  CHECK(only(check_tcp(Host())).severity == Severity::kOk);
}

}  // namespace phub::doctor

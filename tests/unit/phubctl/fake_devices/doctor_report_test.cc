// What the doctor reads from invented kernel files, and how it reports.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "server/phubctl/doctor/doctor.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/transports/fake_verbs_devices.h"
#include "tests/support/transports/gid_tables.h"

namespace phub::doctor {
namespace {

using tests::fake_verbs;
using transport::verbs::device;
using transport::verbs::ethernet_port;
using transport::verbs::usual_table;

// Kernel files with any path below it.
struct KernelFiles : TemporaryDirectory {
  void set(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    write(name, text + "\n");
  }
  Paths paths() const {
    return {.sysfs = path.string() + "/sys", .procfs = path.string() + "/proc"};
  }
};

std::string values_of(const PortCounters& port) {
  std::string text;
  for (const Counter& counter : port.counters) {
    text += counter.name + "=" + std::to_string(counter.value) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("counters are the numbers of both folders of every port") {
  fake_verbs() = {};
  const KernelFiles files;
  const std::string card = "sys/class/infiniband/mlx5_0/";
  files.set(card + "ports/1/counters/symbol_error", "3");
  files.set(card + "ports/1/counters/port_xmit_wait", "N/A (no PMA)");
  files.set(card + "ports/1/hw_counters/out_of_sequence", "18446744073709551615");
  files.set(card + "ports/1/hw_counters/lifespan", "10");
  files.set(card + "ports/2/counters/symbol_error", "0");
  files.set("sys/class/infiniband/rxe0/node_type", "1: CA");
  const Host host = read_host(files.paths());
  CHECK(host.kernel_devices == std::vector<std::string>{"mlx5_0", "rxe0"});
  REQUIRE(host.counters.size() == 2);
  CHECK(host.counters[0].device == "mlx5_0");
  CHECK(host.counters[0].port == 1);
  CHECK(values_of(host.counters[0]) == "symbol_error=3 out_of_sequence=18446744073709551615 ");
  CHECK(host.counters[1].port == 2);
}

TEST_CASE("nodes, huge pages, congestion control and capabilities are read") {
  fake_verbs() = {};
  const KernelFiles files;
  files.set("sys/devices/system/node/node0/cpulist", "0-3,8");
  files.set("sys/devices/system/node/node10/cpulist", "4-7");
  files.set("sys/devices/system/node/possible", "0-10");
  files.set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  files.set("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never]");
  files.set("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512");
  files.set("proc/sys/net/ipv4/tcp_congestion_control", "bbr");
  files.set("proc/sys/net/ipv4/tcp_available_congestion_control", "reno bbr");
  files.set("proc/self/status", "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000004000");
  const Host host = read_host(files.paths());
  REQUIRE(host.numa_nodes.size() == 2);
  CHECK(host.numa_nodes[0].cpus == "0-3,8");
  CHECK(host.numa_nodes[1].number == 10);
  CHECK(host.huge_pages.anonymous == "madvise");
  CHECK(host.huge_pages.shared == "never");
  CHECK(host.huge_pages.reserved == "512");
  CHECK(host.congestion_control == "bbr");
  CHECK(host.congestion_controls == "reno bbr");
  CHECK(host.memlock.is_exempt);
  files.set("proc/self/status", "CapEff:\t0000003fffffbfff");  // all but that one
  CHECK_FALSE(read_host(files.paths()).memlock.is_exempt);
}

TEST_CASE("a machine that shows nothing is read as that") {
  fake_verbs() = {};
  fake_verbs().list_error = EPERM;
  const KernelFiles files;
  const Host host = read_host(files.paths());
  CHECK(host.devices.empty());
  CHECK_FALSE(host.devices_error.empty());
  CHECK(host.kernel_devices.empty());
  CHECK(host.counters.empty());
  CHECK(host.numa_nodes.empty());
  CHECK(host.huge_pages.anonymous.empty());
  CHECK_FALSE(host.memlock.is_exempt);
  CHECK(severity_of(examine(host, {})) == Severity::kFail);
}

TEST_CASE("the table has a line for each finding, its cure below, and every GID with its reason") {
  Host host;
  host.devices = {device("mlx5_0", {ethernet_port(usual_table())})};
  const Findings findings = {{Severity::kOk, "port", "mlx5_0/1", "active"},
                             {Severity::kWarn, "mtu", "mlx5_0/1", "1024 bytes", "raise it"},
                             {Severity::kFail, "memlock", "", "64 KiB", "LimitMEMLOCK=infinity"}};
  CHECK(to_table(host, {.devices = {}, .gid_index = 2}, findings) ==
        "STATUS  CHECK    WHERE     FINDING\n"
        "ok      port     mlx5_0/1  active\n"
        "warn    mtu      mlx5_0/1  1024 bytes\n"
        "                           -> raise it\n"
        "fail    memlock            64 KiB\n"
        "                           -> LimitMEMLOCK=infinity\n"
        "\n"
        "GIDs of mlx5_0 port 1\n"
        "INDEX  TYPE     GID                      INTERFACE  CHOICE\n"
        "    0  RoCE v1  fe80::5054:ff:fe12:3456  eth0       not verbs_gid_index\n"
        "    1  RoCE v2  fe80::5054:ff:fe12:3456  eth0       not verbs_gid_index\n"
        "    2  RoCE v1  ::ffff:10.0.0.5          eth0       chosen: verbs_gid_index\n"
        "    3  RoCE v2  ::ffff:10.0.0.5          eth0       not verbs_gid_index\n");
}

TEST_CASE("the JSON has the worst status, the findings, the devices and the counters") {
  Host host;
  host.devices = {device("mlx5_0", {ethernet_port(usual_table())}),
                  device("mlx5_1", {ethernet_port(usual_table())})};
  host.devices[0].limits.max_qp = 1024;
  host.counters = {{"mlx5_0", 1, {{"symbol_error", 3}}}};
  const Findings findings = {{Severity::kWarn, "mtu", "mlx5_0/1", "a \"b\"", "raise it"}};
  const std::string text = to_json(host, {.devices = {"mlx5_1"}, .gid_index = 0}, findings);
  CHECK(text.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["status"] == "warn");
  CHECK(json["findings"][0]["check"] == "mtu");
  CHECK(json["findings"][0]["where"] == "mlx5_0/1");
  CHECK(json["findings"][0]["finding"] == "a \"b\"");
  CHECK(json["findings"][0]["cure"] == "raise it");
  CHECK(json["devices"][0]["limits"]["max_qp"] == 1024);
  CHECK(json["devices"][0]["ports"][0]["mtu_bytes"] == 4096);
  // A forced index is for the port that would be used; the other one's choice is free.
  CHECK(json["devices"][0]["ports"][0]["gids"][3]["chosen"] == true);
  CHECK(json["devices"][1]["ports"][0]["gids"][0]["chosen"] == true);
  CHECK(json["counters"][0]["values"]["symbol_error"] == 3);
}

TEST_CASE("a check that fails is an error with how many, warnings are none") {
  const std::atomic<bool> stop{false};
  fake_verbs() = {};
  const KernelFiles files;
  CHECK(phubctl::examine_host({.paths = files.paths(), .choices = {}}, false, stop).ok());
  files.set("sys/class/infiniband/mlx5_0/node_type", "1: CA");
  const Status failed = phubctl::examine_host({.paths = files.paths(), .choices = {}}, true, stop);
  CHECK(failed.code() == Code::kFailedPrecondition);
  CHECK_THAT(failed.message(), Catch::Contains("1 of"));
}

}  // namespace phub::doctor

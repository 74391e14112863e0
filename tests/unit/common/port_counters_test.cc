// What is read of a port's counters in invented kernel files, and what is made of it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "common/transport/verbs/device/counters.h"
#include "tests/support/temporary_directory.h"

namespace phub::transport::verbs {
namespace {

struct Sysfs : TemporaryDirectory {
  void count(const std::string& name, const std::string& text) const {
    const std::string file = "class/infiniband/mlx5_0/ports/1/" + name;
    std::filesystem::create_directories((path / file).parent_path());
    write(file, text + "\n");
  }
  std::vector<PortCounter> counters() const { return read_counters(path.string(), "mlx5_0", 1); }
};

}  // namespace

TEST_CASE("counters are the numbers of both folders, as they are there") {
  const Sysfs sysfs;
  sysfs.count("hw_counters/out_of_sequence", "18446744073709551615");
  sysfs.count("counters/symbol_error", "3");
  sysfs.count("counters/port_xmit_data", "1000");
  const std::vector<PortCounter> counters = sysfs.counters();
  REQUIRE(counters.size() == 3);
  CHECK(counters[0].name == "port_xmit_data");
  CHECK(counters[0].value == 1000);
  CHECK(counters[1].name == "symbol_error");
  CHECK(counters[2].value == UINT64_MAX);
}

TEST_CASE("what is no number, cannot be read or is a setting is left out") {
  const Sysfs sysfs;
  sysfs.count("counters/port_xmit_wait", "N/A (no PMA)");
  sysfs.count("counters/empty", "");
  sysfs.count("counters/negative", "-1");
  sysfs.count("hw_counters/lifespan", "10");
  std::filesystem::create_directories(sysfs.path /
                                      "class/infiniband/mlx5_0/ports/1/counters/a_folder");
  CHECK(sysfs.counters().empty());
  CHECK(read_counters(sysfs.path.string(), "mlx5_0", 2).empty());
  CHECK(read_counters("/nonexistent", "mlx5_0", 1).empty());
}

TEST_CASE("data that is counted in words of 4 bytes is told in bytes") {
  const Traffic traffic = traffic_of({{"port_xmit_data", 1000},
                                      {"port_rcv_data", 3},
                                      {"port_xmit_packets", 7},
                                      {"port_rcv_packets", 8}});
  CHECK(traffic.bytes_sent == 4000U);
  CHECK(traffic.bytes_received == 12U);
  CHECK(traffic.packets_sent == 7U);
  CHECK(traffic.packets_received == 8U);
}

TEST_CASE("data that is counted in bytes is told as it is") {
  const Traffic traffic =
      traffic_of({{"tx_bytes", 1000}, {"rx_bytes", 3}, {"tx_pkts", 5}, {"rx_pkts", 6}});
  CHECK(traffic.bytes_sent == 1000U);
  CHECK(traffic.bytes_received == 3U);
  CHECK(traffic.packets_sent == 5U);
  CHECK(traffic.packets_received == 6U);
}

TEST_CASE("Soft-RoCE counts packets and no bytes") {
  const Traffic traffic = traffic_of({{"sent_pkts", 5}, {"rcvd_pkts", 0}});
  CHECK(traffic.packets_sent == 5U);
  CHECK(traffic.packets_received == 0U);
  CHECK_FALSE(traffic.bytes_sent);
  CHECK_FALSE(traffic.bytes_received);
}

TEST_CASE("counters are signs of errors, of congestion, or of nothing") {
  CHECK(kind_of("symbol_error") == CounterKind::kLinkErrors);
  CHECK(kind_of("out_of_sequence") == CounterKind::kLosses);
  CHECK(kind_of("rnr_nak_retry_err") == CounterKind::kReceiversNotReady);
  CHECK(kind_of("port_rcv_constraint_errors") == CounterKind::kRefused);
  for (const char* name : {"np_ecn_marked_roce_packets", "RxECNMrkd", "rp_cnp_handled",
                           "rx_prio3_pause", "port_xmit_wait", "roce_adp_retrans"}) {
    CHECK(kind_of(name) == CounterKind::kCongestion);
  }
  CHECK(kind_of("port_xmit_data") == CounterKind::kOther);
  CHECK(kind_of("sent_pkts") == CounterKind::kOther);
  CHECK(std::string(name_of(CounterKind::kLosses)) == "losses");
  CHECK(std::string(name_of(CounterKind::kOther)).empty());
}

}  // namespace phub::transport::verbs

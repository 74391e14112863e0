// What phubctl shows: tables, numbers, ports and plans as text, messages as JSON.
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "proto/control.grpc.pb.h"
#include "proto/page.pb.h"
#include "server/phubctl/commands/client.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a table aligns its columns to the widest cell and ends no line with blanks") {
  Table table("NAME|>BYTES|NOTE");
  table.add({"a", "1", ""});
  table.add({"longer", "1,000", "x"});
  table.add({"\xC3\xA9t\xC3\xA9", "10", ""});  // three characters in five bytes
  CHECK(table.to_string() ==
        "NAME    BYTES  NOTE\n"
        "a           1\n"
        "longer  1,000  x\n"
        "\xC3\xA9t\xC3\xA9        10\n");
}

TEST_CASE("names that differ by what nobody sees look different in a table, which stays aligned") {
  Table table("NAME|>ROUNDS");
  table.add({"job", "1"});
  table.add({"j\u200bob", "2"});
  table.add({"\ufeffjob", "3"});
  table.add({"a\u202eb", "4"});
  CHECK(table.to_string() ==
        "NAME       ROUNDS\n"
        "job             1\n"
        "j\\u200bob       2\n"
        "\\ufeffjob       3\n"
        "a\\u202eb        4\n");
}

TEST_CASE("a table fits a terminal: columns go in order, then the elastic one is cut") {
  Table table("NAME|A|B|>C");
  table.add({std::string(30, 'n'), "aaaa", "bbbb", "cccc"});
  const auto fitted = [&](std::size_t columns) {
    return table.to_string({.columns = columns, .elastic = 0, .least_first = {2, 1}});
  };
  CHECK(fitted(0) == table.to_string());
  CHECK(fitted(48) == table.to_string());
  CHECK(fitted(40) == "NAME                    A     B        C\n" + std::string(19, 'n') +
                          "...  aaaa  bbbb  cccc\n");
  CHECK(fitted(37) == "NAME                       A        C\n" + std::string(22, 'n') +
                          "...  aaaa  cccc\n(too narrow for: B)\n");
  CHECK(fitted(10) == "NAME                     C\n" + std::string(17, 'n') +
                          "...  cccc\n(too narrow for: B, A)\n");
}

TEST_CASE(
    "a token's lifetime is what was said: for ever is 0 alone, and what is too long is refused") {
  CHECK(lifetime_seconds(0.0).value() == 0);
  CHECK(lifetime_seconds(1.0 / 3600).value() == 1);
  CHECK(lifetime_seconds(0.5).value() == 1800);
  CHECK(lifetime_seconds(720).value() == 720 * 3600);
  CHECK(lifetime_seconds(876'000).value() == 876'000ULL * 3600);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double hours : {0.0002, 1e-300, -1.0, 876'001.0, 1e18, 1e300, kInfinity, -kInfinity,
                             std::numeric_limits<double>::quiet_NaN()}) {
    INFO(hours);
    const auto refused = lifetime_seconds(hours);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message(), Contains("--lifetime-hours"));
  }
}

// A server with a deadline of its own, below that of the call.
class LateSnapshots final : public control::Snapshots::Service {
 public:
  grpc::Status Take(grpc::ServerContext*, const control::TakeRequest*,
                    control::TakeReply*) override {
    return {grpc::StatusCode::DEADLINE_EXCEEDED, "round 7 was not over within 6000 ms"};
  }
};

TEST_CASE("a server's own deadline is told in the server's words") {
  LateSnapshots service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  const auto client =
      std::move(*AdminClient::create("127.0.0.1:" + std::to_string(port), std::chrono::minutes(2)));
  control::TakeReply reply;
  const Status late = client->call(&control::Snapshots::Stub::Take, control::TakeRequest(), reply);
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK(late.message() == "round 7 was not over within 6000 ms");
}

TEST_CASE("bytes are shown in the unit that keeps them short") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1000) == "1000 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(1024 * 1024 - 1) == "1.0 MiB");
  CHECK(human_bytes(102'228'128) == "97.5 MiB");
  CHECK(human_bytes(UINT64_MAX) == "16384.0 PiB");
}

TEST_CASE("counts, seconds and shares are shown as people write them") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1000) == "1,000");
  CHECK(human_count(25'557'032) == "25,557,032");
  CHECK(human_seconds(0.25) == "0.2 s");
  CHECK(human_seconds(303.0) == "5 min 03 s");
  CHECK(human_seconds(7500.0) == "2 h 05 min");
  CHECK(human_share(0.125) == "12.5 %");
}

TEST_CASE("messages become one line of JSON with numbers as numbers and short enumerators") {
  control::InspectJobReply reply;
  control::JobInfo& job = *reply.mutable_job();
  job.set_job_id(3);
  job.set_state(control::JOB_STATE_RUNNING);
  job.mutable_spec()->set_name("a \"b\"");
  job.mutable_spec()->set_wire_type(control::WIRE_TYPE_BF16);
  job.mutable_spec()->set_rule(control::RULE_NESTEROV);
  job.mutable_spec()->set_learning_rate(0.05F);
  job.add_members()->set_worker_index(7);
  job.mutable_statistics()->set_bytes_sent(UINT64_MAX);
  const std::string json = message_json(reply);
  for (const char* part :
       {"\"job_id\":3", "\"state\":\"running\"", "\"name\":\"a \\\"b\\\"\"",
        "\"wire_type\":\"bf16\"", "\"rule\":\"nesterov\"", "\"learning_rate\":0.05,",
        "\"worker_index\":7", "\"left\":false", "\"bytes_sent\":18446744073709551615"}) {
    CHECK_THAT(json, Catch::Matchers::Contains(part));
  }
  CHECK(json.find('\n') == std::string::npos);
}

TEST_CASE("repeated numbers become JSON arrays") {
  control::HeartbeatReply reply;
  reply.add_workers_left(2);
  reply.add_workers_left(5);
  CHECK(message_json(reply) ==
        "{\"running\":false,\"reason\":\"\",\"workers_left\":[2,5],\"ending\":\"\",\"last_step\":0,"
        "\"all_know\":false,\"workers_lost\":[]}");
  page::CoreHistory history;
  history.add_busy_share(0.1F);
  history.add_busy_share(1.0F);
  CHECK(message_json(history) == "{\"busy_share\":[0.1,1.0]}");
}

TEST_CASE("JSON leaves out optional numbers that are absent and shows those that are zero") {
  control::PortInfo port;
  port.set_bytes_sent(0);
  const std::string json = message_json(port);
  CHECK_THAT(json, Catch::Matchers::Contains("\"bytes_sent\":0"));
  CHECK(json.find("bytes_received") == std::string::npos);
}

control::ServerInfo server_with_ports() {
  control::ServerInfo server;
  control::PortInfo& card = *server.add_ports();
  card.set_device("mlx5_0");
  card.set_port(1);
  card.set_link_layer("Ethernet");
  card.set_state("active");
  card.set_mtu_bytes(4096);
  card.set_numa_node(1);
  card.add_cores(0);
  card.add_cores(2);
  card.set_gid_index(3);
  card.set_gid("::ffff:10.0.0.5");
  card.set_gid_type("RoCE v2");
  card.set_bytes_received(1536);
  card.set_bytes_sent(0);
  card.set_packets_received(12'000);
  card.set_packets_sent(7);
  control::PortInfo& soft = *server.add_ports();
  soft = card;
  soft.set_device("rxe0");
  soft.set_numa_node(-1);
  soft.set_state("down");
  soft.mutable_cores()->RemoveLast();
  soft.clear_bytes_received();
  soft.clear_bytes_sent();
  return server;
}

TEST_CASE(
    "a port is shown with its address and what it has carried, a dash where it is not counted") {
  CHECK(ports_text({}).empty());
  CHECK(ports_text(server_with_ports()) ==
        "RDMA PORT  LINK      STATE   NODE   MTU  CORES  GID                         RECEIVED  SENT"
        "  PACKETS IN  PACKETS OUT\n"
        "mlx5_0/1   Ethernet  active     1  4096  0,2    3: RoCE v2 ::ffff:10.0.0.5   1.5 KiB   0 B"
        "      12,000            7\n"
        "rxe0/1     Ethernet  down       -  4096  0      3: RoCE v2 ::ffff:10.0.0.5         -     -"
        "      12,000            7\n");
}

TEST_CASE("of a port's counters people see the errors and congestion that are not zero") {
  control::ServerInfo server = server_with_ports();
  const auto count = [&](const char* name, std::uint64_t value, const char* kind) {
    control::PortCounter& counter = *server.mutable_ports(0)->add_counters();
    counter.set_name(name);
    counter.set_value(value);
    counter.set_kind(kind);
  };
  count("port_xmit_data", 9, "");
  count("symbol_error", 0, "link errors");
  count("out_of_sequence", 1234, "losses");
  count("np_cnp_sent", 5, "congestion");
  const std::string text = ports_text(server);
  CHECK_THAT(text, Catch::Matchers::EndsWith("\n\n"
                                             "RDMA PORT  SIGN OF     COUNTER          VALUE\n"
                                             "mlx5_0/1   losses      out_of_sequence  1,234\n"
                                             "mlx5_0/1   congestion  np_cnp_sent          5\n"));
}

TEST_CASE("a plan shows the load of each core and, where there is RDMA, of each port") {
  control::PlanReply plan;
  const auto add = [&](std::uint32_t server, std::uint32_t core, std::uint64_t bytes) {
    control::CoreLoad& load = *plan.add_loads();
    load.set_server(server);
    load.set_core(core);
    load.set_chunks(2);
    load.set_bytes(bytes);
    return &load;
  };
  control::CoreLoad* const own = add(0, 1, 1024);
  add(1, 0, 3072);
  CHECK(loads_text(plan) ==
        "SERVER  CORE  CHUNKS    BYTES   SHARE\n"
        "     0     1       2  1.0 KiB  25.0 %\n"
        "     1     0       2  3.0 KiB  75.0 %\n");
  own->set_device("mlx5_0");
  own->set_port(2);
  control::PortLoad& port = *plan.add_port_loads();
  port.set_device("mlx5_0");
  port.set_port(2);
  port.add_cores(1);
  port.set_chunks(2);
  port.set_bytes(1024);
  CHECK(loads_text(plan) ==
        "SERVER  CORE  CHUNKS    BYTES   SHARE  RDMA PORT\n"
        "     0     1       2  1.0 KiB  25.0 %  mlx5_0/2\n"
        "     1     0       2  3.0 KiB  75.0 %  -\n"
        "\n"
        "RDMA PORT  SERVER  CORES  CHUNKS    BYTES   SHARE\n"
        "mlx5_0/2        0  1           2  1.0 KiB  25.0 %\n");
}

}  // namespace
}  // namespace phub::phubctl

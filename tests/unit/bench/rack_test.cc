// Scenarios of racks, their links and bytes, the commands that build them, and whose they are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "bench/rack/scenario.h"
#include "bench/rack/testbed/fabric.h"
#include "bench/rack/testbed/load.h"
#include "bench/rack/testbed/losses.h"
#include "bench/rack/testbed/owner.h"
#include "bench/rack/testbed/setup.h"
#include "bench/rack/testbed/ssh_site.h"
#include "bench/rack/testbed/tools.h"
#include "bench/rack/training.h"

namespace phub::bench {
namespace {

constexpr double kMega = 1e6;
constexpr double kBytesPerMbit = kMega / 8;

RackScenario scenario_of(std::string_view text) {
  const auto scenario = parse_scenario(text, "s");
  INFO((scenario ? "" : scenario.error().message()));
  REQUIRE(scenario.has_value());
  return *scenario;
}

std::string refusal(std::string_view text) {
  const auto scenario = parse_scenario(text, "s");
  REQUIRE_FALSE(scenario.has_value());
  CHECK(scenario.error().code() == Code::kInvalidArgument);
  return scenario.error().message();
}

const RackLink& link_named(const Fabric& fabric, std::string_view name) {
  const auto found = std::find_if(fabric.links.begin(), fabric.links.end(),
                                  [name](const RackLink& link) { return link.name == name; });
  REQUIRE(found != fabric.links.end());
  return *found;
}

Fabric two_racks(double payload) {
  return plan_fabric(scenario_of("racks { workers: 4 servers: 1 } racks { workers: 4 servers: 1 }\n"
                                 "links { worker_mbit: 100 server_factor: 4 oversubscription: 4 }"),
                     payload);
}

}  // namespace

TEST_CASE("a scenario's defaults are those of its schema") {
  const RackScenario scenario = scenario_of("racks { workers: 3 servers: 2 }");
  const Work work = work_of(scenario);
  CHECK(work.transport == "tcp");
  CHECK(work.workers == 3);
  CHECK(work.servers == 2);
  CHECK(work.server_cores == 1);
  CHECK(work.elements == 2'500'000);
  CHECK(work.rule == RuleKind::kSum);
  CHECK(scenario.links().worker_mbit() == 100);
}

TEST_CASE("the scenarios that come with the bench are right") {
  std::size_t scenarios = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(PHUB_SOURCE_DIR "/bench/rack/scenarios")) {
    const auto scenario = load_scenario(entry.path().string());
    INFO((scenario ? "" : scenario.error().message()));
    CHECK(scenario.has_value());
    ++scenarios;
  }
  CHECK(scenarios >= 5);
}

TEST_CASE("a wrong scenario is refused with its line, field and cure") {
  CHECK(refusal("") == "s: racks: 0 racks; write 1 to 32 of `racks { workers: N servers: N }`");
  CHECK(refusal("racks { workers: 1 }") == "s:1:1: racks: no rack has a server; set servers");
  CHECK(refusal("racks { servers: 1 }") == "s:1:1: racks: no rack has a worker; set workers");
  CHECK(refusal("racks { workers: 1 servers: 1 }\nracks { }") ==
        "s:2:1: racks: has no host; give it workers or servers");
  CHECK(refusal("racks { workers: 1 }\nracks { servers: 1 }") ==
        "s:2:1: racks: has no workers to tell its uplink's rate from; set uplink_mbit");
  CHECK(refusal("racks { workers: 1 servers: 1 uplink_mbit: 5 }") ==
        "s:1:1: racks: a single rack has no uplink; remove uplink_mbit");
  CHECK(refusal("racks { workers: 64 servers: 1 }") ==
        "s:1:1: racks: 65 hosts in all; at most 64 run here");
  CHECK(refusal("racks { workers: 1 servers: 1 }\nlinks { oversubscription: 2 }") ==
        "s:2:9: links.oversubscription: has no effect with a single rack; remove it");
  CHECK(
      refusal("racks { workers: 1 servers: 1 }\nlinks { burst_kib: 4 }") ==
      "s:2:9: links.burst_kib: a frame of mtu 9000 would never leave; set burst_kib to 9 or more");
  CHECK(refusal("racks { workers: 1 servers: 1 }\nlinks { server_factor: 0 }") ==
        "s:2:9: links.server_factor: a server would have 0 Mbit/s; 1 to 100000 can be held");
  CHECK(
      refusal("racks { workers: 1 servers: 1 } racks { workers: 1 }\n"
              "links { oversubscription: 0 }") ==
      "s:2:9: links.oversubscription: 0 is no ratio; write a number above 0, 1 where the uplink is "
      "as fast as all of its rack's workers");
  CHECK(refusal("racks { workers: 1 servers: 1 }\nexchange { rule: \"som\" }") ==
        "s:2:12: exchange.rule: \"som\" is not known; allowed are sum, mean, sgd, momentum, "
        "nesterov; did you mean \"sum\"?");
  CHECK(refusal("racks { wrkers: 1 }").find("did you mean \"workers\"?") != std::string::npos);
}

TEST_CASE("a training is a worker's configuration, with the scenario's own fields") {
  const auto config = trained_config(
      scenario_of("racks { workers: 3 servers: 1 } servers { tcp_congestion_control: \"reno\" }\n"
                  "training { config: \"" PHUB_SOURCE_DIR "/configs/mnist.textproto\"\n"
                  "  worker { train { epochs: 2 } data { shift_pixels: 1 } } }"));
  INFO((config ? "" : config.error().message()));
  REQUIRE(config.has_value());
  CHECK(config->job() == "mnist");
  CHECK(config->workers() == 3);
  CHECK(config->transport() == "tcp");
  CHECK(config->tcp_congestion_control() == "reno");
  CHECK(config->train().epochs() == 2);
  CHECK(config->train().batch() == 32);
  CHECK(config->data().shift_pixels() == 1);
  CHECK(std::filesystem::path(config->data().path()).is_absolute());
}

TEST_CASE("a wrong training is refused with its field") {
  const std::string racks = "racks { workers: 1 servers: 1 }\n";
  CHECK(refusal(racks + "training { }").find("training.config: is missing") != std::string::npos);
  CHECK(refusal(racks + "exchange { }\ntraining { config: \"a\" }") ==
        "s:3:1: training: has no effect beside exchange; remove it");
  CHECK(refusal(racks + "training { worker { workers: 2 } }") ==
        "s:2:21: training.worker.workers: is the scenario's to set: racks' workers");
  CHECK(refusal(racks + "training { config: \"a\" kernels: \"fastest\" }")
            .starts_with("s:2:24: training.kernels: \"fastest\" is not known"));
  const auto wrong = trained_config(scenario_of(
      racks + "training { worker { data { format: \"synthetic\" } train { batch: 0 } } }"));
  CHECK(wrong.error().code() == Code::kInvalidArgument);
  CHECK(wrong.error().message().starts_with("training: train.batch: 0 is outside"));
  const auto none = trained_config(scenario_of(racks + "training { config: \"none.textproto\" }"));
  CHECK(none.error().code() == Code::kNotFound);
}

TEST_CASE("in one rack each worker's link carries the payload, the server's all of them") {
  const Fabric fabric = plan_fabric(
      scenario_of("racks { workers: 8 servers: 1 } links { worker_mbit: 100 server_factor: 4 }"),
      10 * kMega);
  REQUIRE(fabric.links.size() == 9);
  CHECK(link_named(fabric, "r0w7").up_bytes == 10 * kMega);
  CHECK(link_named(fabric, "r0s0").down_bytes == 80 * kMega);
  CHECK(link_named(fabric, "r0s0").mbit == 400);
  CHECK(bounding_link(fabric).name == "r0s0");
  CHECK(least_seconds(bounding_link(fabric)) == Approx(80 * kMega / (400 * kBytesPerMbit)));
}

// phub.md's cost model, N = 4 workers a rack, r = 2 racks, M bytes: 2 N M (r-1) / (r Bc).
TEST_CASE("over two racks the uplinks bind as the cost model says") {
  const double payload = 10 * kMega;
  const Fabric fabric = two_racks(payload);
  REQUIRE(fabric.links.size() == 12);
  CHECK(link_named(fabric, "r0 uplink").mbit == 100);
  CHECK(bounding_link(fabric).name == "r0 uplink");
  CHECK(least_seconds(bounding_link(fabric)) ==
        Approx(2 * 4 * payload * (2 - 1) / (2 * 100 * kBytesPerMbit)));
  CHECK(least_seconds(link_named(fabric, "r0w0")) == Approx(payload / (100 * kBytesPerMbit)));
  CHECK(least_seconds(link_named(fabric, "r1s0")) == Approx(4 * payload / (400 * kBytesPerMbit)));
}

TEST_CASE("an uplink's own rate goes before the oversubscription") {
  const Fabric fabric =
      plan_fabric(scenario_of("racks { workers: 2 } racks { servers: 1 uplink_mbit: 300 }"), kMega);
  CHECK(link_named(fabric, "r0 uplink").mbit == 200);
  CHECK(link_named(fabric, "r1 uplink").mbit == 300);
  CHECK(link_named(fabric, "r1 uplink").down_bytes == 2 * kMega);
}

TEST_CASE(
    "hosts of real machines are servers first, and servers on one address have ports of their "
    "own") {
  const Fabric fabric = plan_fabric(
      scenario_of("racks { servers: 2 workers: 1 hosts: \"a\" hosts: \"me@b\" hosts: \"c\" }\n"
                  "racks { servers: 1 workers: 1 hosts: \"b\" hosts: \"you@10.0.0.7\" }\n"
                  "ssh { control_port: 9000 }"),
      kMega);
  REQUIRE(fabric.hosts.size() == 5);
  CHECK(fabric.hosts[0].control_port == 9000);
  CHECK(fabric.hosts[1].login == "me@b");
  CHECK(fabric.hosts[1].address == "b");
  CHECK(fabric.hosts[1].control_port == 9000);
  CHECK(fabric.hosts[3].control_port == 9001);
  CHECK(fabric.hosts[4].name == "r1w0");
  CHECK(fabric.hosts[4].address == "10.0.0.7");
}

TEST_CASE("wrong hosts are refused") {
  const std::string one = "racks { servers: 1 workers: 1 hosts: \"a\" hosts: \"b\" }\n";
  CHECK(refusal(one + "racks { workers: 1 }").find("0 hosts for 0 server(s) and 1 worker(s)") !=
        std::string::npos);
  for (const char* host : {"-oProxyCommand=x", "a b", "@a", "me@", "a@b@c", "", "a;b", "$a"}) {
    const std::string racks =
        std::string("racks { servers: 1 workers: 1 hosts: \"a\" hosts: \"") + host + "\" }";
    CHECK(refusal(racks).find("is not [USER@]ADDRESS") != std::string::npos);
  }
  CHECK(
      refusal(one + "faults { kind: KILL_SERVER server: 0 }").find("are made in namespaces only") !=
      std::string::npos);
  CHECK(refusal("racks { workers: 1 servers: 1 }\nssh { folder: \"/bin\" }")
            .find("without racks' hosts") != std::string::npos);
  CHECK(refusal(one + "ssh { folder: \"bin\" }").find("ssh.folder: is not a whole path") !=
        std::string::npos);
}

TEST_CASE("peers are for fp32 sums of several workers in namespaces") {
  const std::string racks = "racks { workers: 2 servers: 1 }\npeers: \"openmpi\"\n";
  CHECK(scenario_of(racks).peers(0) == "openmpi");
  CHECK(refusal(racks + "peers: \"gloo\"").find("\"gloo\" is not known") != std::string::npos);
  CHECK(refusal(racks + "peers: \"openmpi\"") == "s:3:1: peers: is there twice");
  CHECK(refusal(racks + "exchange { dtype: \"fp16\" }").find("on fp32 sums only") !=
        std::string::npos);
  CHECK(refusal(racks + "exchange { rule: \"mean\" }").find("on fp32 sums only") !=
        std::string::npos);
  CHECK(refusal(racks + "training { worker { } }").find("do not train") != std::string::npos);
  CHECK(refusal(racks + "faults { kind: KILL_SERVER server: 0 }").find("scenarios with faults") !=
        std::string::npos);
  CHECK(refusal("racks { workers: 1 servers: 1 } peers: \"openmpi\"").find("nobody to talk to") !=
        std::string::npos);
}

TEST_CASE("a shell takes a word as it is") {
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == R"('it'\''s')");
  CHECK(shell_word("") == "''");
}

TEST_CASE("every end of every link is shaped, and nothing is made outside of our namespaces") {
  const Fabric fabric = two_racks(kMega);
  const auto batches = setup_batches(fabric, RackLinks(), "own");
  std::size_t shaped = 0;
  for (const Batch& batch : batches) {
    for (const std::string& line : batch.lines) {
      if (batch.program == "tc") ++shaped;
      if (batch.space.empty()) CHECK(line.starts_with("netns add own-"));
    }
  }
  CHECK(shaped == 2 * fabric.links.size());
  const auto has = [&batches](const std::string& space, const std::string& line) {
    return std::any_of(batches.begin(), batches.end(), [&](const Batch& batch) {
      return batch.space == space &&
             std::find(batch.lines.begin(), batch.lines.end(), line) != batch.lines.end();
    });
  };
  CHECK(has("own-r1w3", "qdisc add dev eth0 root tbf rate 100000000bit burst 32kb limit 16384kb"));
  CHECK(has("own-r0s0", "qdisc add dev eth0 root tbf rate 400000000bit burst 32kb limit 16384kb"));
  CHECK(
      has("own-fabric", "qdisc add dev down1 root tbf rate 100000000bit burst 32kb limit 1024kb"));
  CHECK(has("own-fabric", "link add name r0w0 type veth peer name eth0 netns own-r0w0"));
  CHECK(has("own-fabric", "link set dev down0 mtu 9000 master core up"));
}

TEST_CASE("a route to all hosts takes the congestion control") {
  const Fabric fabric = two_racks(kMega);
  CHECK(congestion_line(fabric.hosts.at(1), "cubic") ==
        "route replace 10.77.0.0/16 dev eth0 proto kernel scope link src 10.77.0.2 congctl cubic");
}

TEST_CASE("a failed batch is explained by its line and the cure") {
  const Batch batch{.program = "tc", .space = "x", .lines = {"qdisc add dev a root tbf", "other"}};
  CHECK(explain(batch, "Error: Specified qdisc kind is unknown.\nCommand failed /tmp/b:1\n") ==
        "tc 'qdisc add dev a root tbf': Error: Specified qdisc kind is unknown.; the kernel cannot "
        "hold rates: modprobe sch_tbf");
  CHECK(explain(batch, "Cannot find device\nCommand failed /tmp/b:2\n") ==
        "tc 'other': Cannot find device");
}

TEST_CASE("bytes are read at the switches' ports: what a port receives, its host sent") {
  const Fabric fabric = plan_fabric(scenario_of("racks { workers: 1 servers: 1 }"), kMega);
  const auto bytes = parse_link_bytes(
      R"([{"ifname":"lo","stats64":{"rx":{"bytes":1},"tx":{"bytes":1}}},
          {"ifname":"r0w0","stats64":{"rx":{"bytes":5},"tx":{"bytes":7}}},
          {"ifname":"r0s0","stats64":{"rx":{"bytes":8},"tx":{"bytes":6}}}])",
      fabric);
  REQUIRE(bytes.has_value());
  CHECK(bytes->at(0).up == 8);
  CHECK(bytes->at(1).up == 5);
  CHECK(bytes->at(1).down == 7);
  CHECK(parse_link_bytes("[]", fabric).error().message() == "ip says nothing of interface r0s0");
  CHECK_FALSE(parse_link_bytes("no json", fabric).has_value());
}

TEST_CASE("drops are told by interface, and what was sent again by the host's TCP") {
  const auto drops = parse_drops(R"([{"kind":"noqueue","dev":"lo","drops":0},
      {"kind":"tbf","dev":"r0w0","bytes":5,"drops":7},{"kind":"tbf","dev":"up0","drops":2}])");
  REQUIRE(drops.has_value());
  CHECK(drops->at("r0w0") == 7);
  CHECK(drops->at("up0") == 2);
  CHECK_FALSE(parse_drops("no json").has_value());
  const auto resent = parse_resent(
      "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn RetransSegs InErrs\nTcp: 200 -1 42 3\nUdp: a\n");
  REQUIRE(resent.has_value());
  CHECK(*resent == 42);
  CHECK_FALSE(parse_resent("Tcp: RtoMin\nTcp: 200\n").has_value());
  CHECK_FALSE(parse_resent("").has_value());
  const auto lost = losses_between({{.dropped_up = 1, .dropped_down = 2, .resent = 3}},
                                   {{.dropped_up = 5, .dropped_down = 5, .resent = 5}});
  CHECK(lost[0].dropped_up == 4);
  CHECK(lost[0].dropped_down == 3);
  CHECK(lost[0].resent == 2);
}

TEST_CASE("a link's load is the rate that its bytes had, over all intervals") {
  const Fabric fabric = two_racks(kMega);
  RackSample before;
  before.links.resize(fabric.links.size());
  before.cpus = {{.busy = 10, .total = 100}, {.busy = 0, .total = 100}};
  RackSample after = before;
  after.when += std::chrono::seconds(2);
  after.links[0] = {.up = 25'000'000, .down = 50'000'000};
  after.cpus = {{.busy = 60, .total = 200}, {.busy = 100, .total = 200}};
  after.own_seconds = 1;
  RackLoad load(fabric);
  load.add(before, after);
  load.add(before, after);
  CHECK(load.seconds() == Approx(4));
  CHECK(load.link_busy({.name = "x", .mbit = 100}, load.links()[0].up) == Approx(1));
  CHECK(load.link_busy({.name = "x", .mbit = 400}, load.links()[0].down) == Approx(0.5));
  CHECK(load.cpus_busy() == std::vector<double>{0.5, 1.0});
  CHECK(load.machine_busy() == Approx(0.75));
  CHECK(load.own_busy() == Approx(0.25));
}

TEST_CASE("a name tells whose it is, and whether he lives") {
  const RackOwner self = RackOwner::self();
  const auto read = RackOwner::of(self.prefix() + "-r0w0");
  REQUIRE(read.has_value());
  CHECK(read->pid == self.pid);
  CHECK(read->is_alive());
  // The same pid, of another process that had it before.
  CHECK_FALSE(RackOwner{.pid = self.pid, .start_ticks = self.start_ticks - 1}.is_alive());
  CHECK_FALSE(RackOwner{.pid = 1 << 30, .start_ticks = 1}.is_alive());
  for (const char* other : {"", "phub-rack-", "phub-rack-12", "phub-rack-12-", "phub-rack-1-2x",
                            "other-1-2", "phub-rack-a-2"}) {
    CHECK_FALSE(RackOwner::of(other).has_value());
  }
}

}  // namespace phub::bench

// Faults of racks: whom they hit, who is named, and how a worker should end.
#include <catch2/catch.hpp>

#include "bench/compare/interleave.h"
#include "bench/rack/fault_run.h"
#include "bench/rack/faults.h"
#include "bench/rack/scenario.h"
#include "bench/rack/training.h"

namespace phub::bench {
namespace {

const std::string kTwoRacks = "racks { workers: 2 servers: 1 } racks { workers: 2 servers: 1 }\n";

RackScenario with_fault(const std::string& fault) {
  const auto scenario = parse_scenario(kTwoRacks + "faults { " + fault + " }", "s");
  INFO((scenario ? "" : scenario.error().message()));
  REQUIRE(scenario.has_value());
  return *scenario;
}

std::string refused(const std::string& faults, const std::string& racks = kTwoRacks) {
  const auto scenario = parse_scenario(racks + faults, "s");
  REQUIRE_FALSE(scenario.has_value());
  CHECK(scenario.error().code() == Code::kInvalidArgument);
  return scenario.error().message();
}

const RackHost& host_of(const Fabric& fabric, const std::string& name) {
  for (const RackHost& host : fabric.hosts) {
    if (host.name == name) return host;
  }
  FAIL("no host " + name);
  return fabric.hosts.front();
}

bool is_named(const std::string& fault, const std::string& by, const std::string& error) {
  const RackScenario scenario = with_fault(fault);
  const Fabric fabric = plan_fabric(scenario, 1);
  return names_fault(fabric, scenario.faults(0), host_of(fabric, by), error);
}

}  // namespace

TEST_CASE("a bar says how much is done and how long the rest takes at the same pace") {
  using std::chrono::seconds;
  CHECK(progress_text(0, seconds(5), "a") == "[--------------------]   0 %  a");
  CHECK(progress_text(0.25, seconds(30), "b") ==
        "[#####---------------]  25 %  b, about 1:30 left");
  CHECK(progress_text(1, seconds(30), "c") == "[####################] 100 %  c, about 0:00 left");
  CHECK(progress_text(-1, seconds(30), "d") == "d");
}

TEST_CASE("a training's share is of its steps, or unknown until an epoch has ended") {
  TrainConfig config;
  config.set_epochs(4);
  CHECK(share_done(config, 7, 0) < 0);
  CHECK(share_done(config, 10, 10) == 0.25);
  CHECK(share_done(config, 50, 10) == 1);
  config.set_max_steps(20);
  CHECK(share_done(config, 5, 0) == 0.25);
  CHECK(share_done(config, 5, 10) == 0.25);
  CHECK(share_done(config, 5, 2) == 0.625);
}

TEST_CASE("a wrong fault is refused with its place and the cure") {
  CHECK(refused("faults { }") ==
        "s:2:1: faults: has no kind; set kind: KILL_SERVER, or another of RackFault.Kind");
  const std::string kinds =
      "is not known; allowed, without quotes, are KILL_SERVER, KILL_WORKER, LINK_DOWN, "
      "UPLINK_DOWN, SLOW_START";
  CHECK(refused("faults {\n  kind: KILL\n}\n\n") == "s:3:9: field \"kind\": KILL " + kinds);
  CHECK(refused("faults { kind: \"KILL_SERVER\" }") ==
        "s:2:16: field \"kind\": \"KILL_SERVER\" " + kinds);
  CHECK(refused("faults { kind: KILL_SERVER }") ==
        "s:2:1: faults: KILL_SERVER hits one host; set server or worker");
  CHECK(refused("faults { kind: KILL_SERVER server: 1 }") ==
        "s:2:1: faults: server 1 is not there; rack 0 has 1");
  CHECK(refused("faults { kind: KILL_WORKER rack: 2 worker: 0 }") ==
        "s:2:1: faults: rack 2 is not there; racks are 0 to 1");
  CHECK(refused("faults { kind: KILL_WORKER worker: 2 }") ==
        "s:2:1: faults: worker 2 is not there; rack 0 has 2");
  CHECK(refused("faults { kind: KILL_WORKER server: 0 }") ==
        "s:2:1: faults: server has no effect with KILL_WORKER; remove it");
  CHECK(refused("faults { kind: UPLINK_DOWN worker: 0 }") ==
        "s:2:1: faults: worker has no effect with UPLINK_DOWN; remove it");
  CHECK(refused("faults { kind: LINK_DOWN worker: 0 server: 0 }") ==
        "s:2:1: faults: hits one host; set server or worker");
  CHECK(refused("faults { kind: UPLINK_DOWN }", "racks { workers: 1 servers: 1 }\n") ==
        "s:2:1: faults: a single rack has no uplink");
  CHECK(refused("faults { kind: SLOW_START }") ==
        "s:2:1: faults: for_s 0 is outside the allowed range of 0.1 to 45");
  CHECK(refused("faults { kind: SLOW_START for_s: 1 at_s: 1 }") ==
        "s:2:1: faults: SLOW_START is at the start; remove at_round and at_s");
  CHECK(refused("faults { kind: UPLINK_DOWN for_s: 1 }") ==
        "s:2:1: faults: for_s is for SLOW_START; remove it");
  CHECK(refused("faults { kind: UPLINK_DOWN at_s: -1 }") ==
        "s:2:1: faults: at_s -1 is outside the allowed range of 0 to 3600");
  CHECK(refused("faults { kind: UPLINK_DOWN }\nfaults { kind: UPLINK_DOWN rack: 1 at_round: 1 }") ==
        "s:3:1: faults: all faults come after the same at_round; set at_s for those that come "
        "later");
  CHECK(refused("faults { kind: UPLINK_DOWN }\nfaults { kind: SLOW_START for_s: 1 }") ==
        "s:2:1: faults: SLOW_START beside it: make two scenarios of it");
  CHECK(refused("training { worker { } } faults { kind: UPLINK_DOWN at_round: 1 }")
            .find("at_round is for exchanges; in a training set at_s") != std::string::npos);
  CHECK(refused("fault_deadline_s: 5") ==
        "s:2:1: fault_deadline_s: has no effect without faults; remove it");
}

TEST_CASE("a killed server is named by its address, as a whole") {
  const std::string fault = "kind: KILL_SERVER rack: 1 server: 0";
  CHECK(is_named(fault, "r0w0", "server 10.77.1.1:7077 is gone"));
  CHECK_FALSE(is_named(fault, "r0w0", "server 10.77.1.11:7077 is gone"));
  CHECK_FALSE(is_named(fault, "r0w0", "server 10.77.0.1:7077 is gone"));
  CHECK_FALSE(is_named(fault, "r0w0", ""));
}

TEST_CASE("a killed worker is named by its number among all workers") {
  const std::string fault = "kind: KILL_WORKER rack: 1 worker: 0";
  CHECK(is_named(fault, "r0w1", "worker 2 (host a, pid 7) was lost"));
  CHECK_FALSE(is_named(fault, "r0w1", "worker 21 (host a, pid 7) was lost"));
  CHECK_FALSE(is_named(fault, "r0w1", "worker 1 (host a, pid 7) was lost"));
}

TEST_CASE("of a link that is down each side names the other") {
  const std::string uplink = "kind: UPLINK_DOWN rack: 1";
  CHECK(is_named(uplink, "r0w0", "server 10.77.1.1:7077 is lost"));
  CHECK(is_named(uplink, "r0w0", "worker 3 (host a) was lost"));
  CHECK_FALSE(is_named(uplink, "r0w0", "worker 1 (host a) was lost"));
  CHECK(is_named(uplink, "r1w0", "worker 1 (host a) was lost"));
  CHECK_FALSE(is_named(uplink, "r1w0", "server 10.77.1.1:7077 is lost"));
  const std::string link = "kind: LINK_DOWN rack: 0 worker: 1";
  CHECK(is_named(link, "r0w1", "server 10.77.0.1:7077 is lost"));
  CHECK(is_named(link, "r0w0", "worker 1 (host a) was lost"));
  CHECK_FALSE(is_named(link, "r0w0", "server 10.77.0.1:7077 is lost"));
}

TEST_CASE("only hosts of a slow start are late") {
  const RackScenario scenario = with_fault("kind: SLOW_START rack: 1 worker: 1 for_s: 3");
  for (const RackHost& host : plan_fabric(scenario, 1).hosts) {
    CHECK(late_seconds(scenario, host) == (host.name == "r1w1" ? 3 : 0));
  }
  const RackScenario rack = with_fault("kind: SLOW_START rack: 1 for_s: 3");
  for (const RackHost& host : plan_fabric(rack, 1).hosts) {
    CHECK(late_seconds(rack, host) == (host.rack == 1 ? 3 : 0));
  }
  const RackScenario other = with_fault("kind: KILL_SERVER rack: 1 server: 0");
  for (const RackHost& host : plan_fabric(other, 1).hosts) CHECK(late_seconds(other, host) == 0);
}

TEST_CASE("a worker that hangs, dies, goes on or blames another is wrong") {
  const RackScenario scenario = with_fault("kind: KILL_WORKER rack: 0 worker: 1 at_s: 1");
  const Fabric fabric = plan_fabric(scenario, 1);
  const auto fault = std::chrono::steady_clock::now();
  const auto wrong = [&](const char* host, WorkerEnd end, int ms) {
    end.when = fault + std::chrono::milliseconds(ms);
    return judge(scenario, fabric, host_of(fabric, host), &end, fault).wrong;
  };
  const WorkerEnd blames{.kind = EndKind::kError, .error = "worker 1 (host a) was lost"};
  CHECK(wrong("r1w0", blames, 5).empty());
  CHECK(wrong("r0w1", {.kind = EndKind::kKilled}, 5).empty());
  CHECK(wrong("r1w0", blames, -5).starts_with("ended before the fault"));
  CHECK(wrong("r1w0", {.kind = EndKind::kError, .error = "worker 0 was lost"}, 5) ==
        "does not name who is at fault: worker 0 was lost");
  CHECK(wrong("r1w0", {.kind = EndKind::kKilled}, 5).starts_with("died"));
  CHECK(wrong("r1w0", {.kind = EndKind::kDone}, 5).starts_with("has done all of its rounds"));
  const FaultedWorker hung = judge(scenario, fabric, host_of(fabric, "r1w1"), nullptr, fault);
  CHECK(hung.kind == EndKind::kHung);
  CHECK(verdict({hung}).message() == "r1w1 has not ended 60 s after the fault");
  CHECK(verdict({}).ok());
}

}  // namespace phub::bench

// What the doctor finds in what two hosts have measured.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "server/doctor/peer/end.h"
#include "server/doctor/peer/judge.h"
#include "server/doctor/peer/socket.h"
#include "server/phubctl/doctor/doctor.h"
#include "tests/support/transports/gid_tables.h"

namespace phub::doctor {
namespace {

using Catch::Contains;
using transport::verbs::gid;
using transport::verbs::GidType;
using transport::verbs::LinkLayer;

RdmaEnd rdma_end(const std::string& device) {
  return {.obstacle = {},
          .device = device,
          .port = 1,
          .link_layer = LinkLayer::kEthernet,
          .gid = gid(3, GidType::kRoceV2, "::ffff:10.0.0.5"),
          .gid_reason = "chosen: RoCE v2, routable IPv4",
          .mtu_bytes = 4096,
          .speed = "100 Gb/sec (4X EDR)"};
}

LinkTrial good_trial() {
  LinkTrial trial;
  trial.ping_seconds = 2.5e-6;
  trial.chunk_seconds = 6e-6;
  trial.bytes_per_second_there = 11.5e9;
  trial.bytes_per_second_back = 11.75e9;
  trial.verified_here = trial.verified_there = true;
  return trial;
}

Meeting good_meeting() {
  Meeting meeting;
  meeting.address = {.host = "node7", .port = 7079};
  meeting.here = {.host = "node3", .software = "1.0", .rdma = rdma_end("mlx5_0")};
  meeting.there = {.host = "node7", .software = "1.0", .rdma = rdma_end("mlx5_1")};
  meeting.tcp = good_trial();
  meeting.verbs = good_trial();
  return meeting;
}

// The worst of a check's, and its words.
Finding worst(const Findings& findings, const std::string& check) {
  Finding found{.check = "none", .where = {}, .text = {}};
  for (const Finding& finding : findings) {
    if (finding.check != check) continue;
    if (found.check == "none" || finding.severity > found.severity) found = finding;
  }
  REQUIRE(found.check == check);
  return found;
}

bool has_check(const Findings& findings, const std::string& check) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.check == check; });
}

Finding unmet(Code code) {
  Meeting meeting = good_meeting();
  meeting.met = {code, "the message"};
  const Findings findings = judge(meeting, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].text == "the message");
  return findings[0];
}

}  // namespace

TEST_CASE("a good meeting has only good findings, of every check") {
  const Findings findings = judge(good_meeting(), {});
  for (const Finding& finding : findings) {
    INFO(finding.check << ": " << finding.text);
    CHECK(finding.severity == Severity::kOk);
    CHECK(finding.cure.empty());
  }
  for (const char* check :
       {"peer", "version", "tcp", "rdma", "path mtu", "verbs", "speed", "counters"}) {
    CHECK(has_check(findings, check));
  }
  CHECK(worst(findings, "peer").where == "node7:7079");
  CHECK(worst(findings, "rdma").where == "here mlx5_0/1");
  CHECK(worst(findings, "verbs").text == "half a round trip 2.5 us (64 bytes), 6 us (32 KiB)");
  Meeting slow = good_meeting();
  slow.verbs->chunk_seconds = 1.22e-3;
  CHECK_THAT(worst(judge(slow, {}), "verbs").text, Contains("1.22 ms (32 KiB)"));
  CHECK(worst(findings, "speed").text == "92.0 % of the slower card's 100 Gb/sec (4X EDR)");
}

TEST_CASE("a peer that is not met fails with the cure of its reason, and nothing else is judged") {
  CHECK_THAT(unmet(Code::kNotFound).cure, Contains("getent hosts node7"));
  CHECK_THAT(unmet(Code::kUnavailable).cure,
             Contains("phubctl doctor --listen") && Contains("7079") && Contains("firewall"));
  CHECK_THAT(unmet(Code::kDeadlineExceeded).cure, Contains("drop") && Contains("ping node7"));
  CHECK_THAT(unmet(Code::kInvalidArgument).cure, Contains("another program"));
  CHECK_THAT(unmet(Code::kResourceExhausted).cure, Contains("try again"));
  CHECK_THAT(unmet(Code::kFailedPrecondition).cure, Contains("same version"));
  CHECK(unmet(Code::kUnavailable).severity == Severity::kFail);
  CHECK(unmet(Code::kAborted).severity == Severity::kWarn);
}

TEST_CASE("different versions of the software are a warning") {
  Meeting meeting = good_meeting();
  meeting.there.software = "1.1";
  const Finding finding = worst(judge(meeting, {}), "version");
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.text == "1.0 here, 1.1 there");
}

TEST_CASE("an end without RDMA is a warning with its reason, a failure where it was asked for") {
  Meeting meeting = good_meeting();
  meeting.verbs.reset();
  meeting.there.rdma = {};
  meeting.there.rdma.obstacle = "there is no RDMA device";
  Finding finding = worst(judge(meeting, {}), "rdma");
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.where == "there");
  CHECK(finding.text == "verbs is not measured: there is no RDMA device");
  CHECK(worst(judge(meeting, {}), "tcp").severity == Severity::kOk);
  CHECK_FALSE(has_check(judge(meeting, {}), "path mtu"));
  std::swap(meeting.here.rdma, meeting.there.rdma);
  CHECK(worst(judge(meeting, {}), "rdma").severity == Severity::kWarn);
  CHECK(worst(judge(meeting, {.devices = {"mlx5_0"}, .gid_index = {}}), "rdma").severity ==
        Severity::kFail);
}

TEST_CASE("two ports that do not reach each other fail") {
  Meeting meeting = good_meeting();
  meeting.verbs.reset();
  meeting.route = {Code::kNotFound, "no RDMA port here reaches the other host's mlx5_1"};
  const Finding finding = worst(judge(meeting, {}), "rdma");
  CHECK(finding.severity == Severity::kFail);
  CHECK_THAT(finding.cure, Contains("--verbs-devices") && Contains("--verbs-gid-index"));
}

TEST_CASE("different MTUs are a warning with the cure of the link layer") {
  RdmaEnd small = rdma_end("mlx5_1");
  small.mtu_bytes = 1024;
  const Finding ethernet = worst(judge_mtu(rdma_end("mlx5_0"), small), "path mtu");
  CHECK(ethernet.severity == Severity::kWarn);
  CHECK_THAT(ethernet.text, Contains("4096 bytes here, 1024 there"));
  CHECK_THAT(ethernet.cure, Contains("mtu 9000"));
  small.link_layer = LinkLayer::kInfiniBand;
  CHECK_THAT(worst(judge_mtu(small, rdma_end("mlx5_0")), "path mtu").cure,
             Contains("partitions.conf"));
}

TEST_CASE("a bandwidth below four fifths of the slower card is a warning") {
  LinkTrial trial = good_trial();
  RdmaEnd fast = rdma_end("mlx5_1");
  fast.speed = "200 Gb/sec (4X HDR)";
  const RdmaEnd slow = rdma_end("mlx5_0");
  trial.bytes_per_second_back = 10.01e9;
  CHECK(worst(judge_speed(trial, slow, fast), "speed").severity == Severity::kOk);
  CHECK(worst(judge_speed(trial, fast, slow), "speed").severity == Severity::kOk);
  trial.bytes_per_second_back = 9.9e9;
  const Finding finding = worst(judge_speed(trial, fast, slow), "speed");
  CHECK(finding.severity == Severity::kWarn);
  CHECK_THAT(finding.cure,
             Contains("PFC") && Contains("MTU") && Contains("PCIe") && Contains("NUMA"));
  fast.speed.clear();
  CHECK(judge_speed(trial, fast, slow).empty());
}

TEST_CASE("a speed is the number in front of Gb/sec") {
  CHECK(bits_per_second_of("100 Gb/sec (4X EDR)") == 1e11);
  CHECK(bits_per_second_of("2.5 Gb/sec (1X SDR)") == 2.5e9);
  for (const char* text : {"", "fast", "100", "100 Mb/sec", "-1 Gb/sec", "nan Gb/sec"}) {
    CHECK(bits_per_second_of(text) == 0.0);
  }
}

TEST_CASE("bytes that arrive changed fail, at the end where they did") {
  LinkTrial trial = good_trial();
  trial.verified_there = false;
  const Finding finding = worst(judge_trial(trial, "verbs"), "verbs");
  CHECK(finding.severity == Severity::kFail);
  CHECK(finding.where == "there");
}

TEST_CASE("a trial that breaks fails with its reason, one that is stopped is a warning") {
  Meeting meeting = good_meeting();
  meeting.verbs->status = {Code::kUnavailable, "the connection to the other end broke"};
  const Finding broken = worst(judge(meeting, {}), "verbs");
  CHECK(broken.severity == Severity::kFail);
  CHECK_THAT(broken.cure, Contains("4791"));
  CHECK_FALSE(has_check(judge(meeting, {}), "speed"));
  meeting.verbs->status = {Code::kAborted, "stopped before it was done"};
  CHECK(worst(judge(meeting, {}), "verbs").severity == Severity::kWarn);
}

TEST_CASE("error counters that rise are a warning at their end, traffic is none") {
  Meeting meeting = good_meeting();
  meeting.verbs->risen_here = {{"port_rcv_packets", 1000}, {"np_cnp_sent", 7}};
  meeting.verbs->risen_there = {{"port_rcv_packets", 1000}, {"packet_seq_err", 4}};
  const Findings findings = judge(meeting, {});
  const Finding finding = worst(findings, "counters");
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.where == "there mlx5_1/1");
  CHECK(finding.text == "while measuring, losses: packet_seq_err 4");
  CHECK_THAT(finding.cure, Contains("PFC"));
}

TEST_CASE("counters that have grown are listed with their growth") {
  const std::vector<Counter> before{{"a", 5}, {"b", 5}, {"c", 5}};
  const std::vector<Counter> after{{"a", 5}, {"b", 7}, {"c", 1}, {"d", 9}};
  const std::vector<Counter> grown = risen(before, after);
  REQUIRE(grown.size() == 1);
  CHECK(grown[0].name == "b");
  CHECK(grown[0].value == 2);
}

TEST_CASE("a port survives the way to the other host, and a wrong one is refused by its field") {
  const RdmaEnd end = rdma_end("mlx5_0");
  const doctor_wire::Port port = to_wire(end);
  const RdmaEnd read = from_wire(port).value();
  CHECK(read.device == end.device);
  CHECK(read.gid.bytes == end.gid.bytes);
  CHECK(read.gid.type == end.gid.type);
  CHECK(read.link_layer == end.link_layer);
  CHECK(read.speed == end.speed);
  const auto refused = [&](auto change) {
    doctor_wire::Port wrong = port;
    change(wrong);
    const auto result = from_wire(wrong);
    return result ? std::string() : result.error().message();
  };
  CHECK_THAT(refused([](auto& wrong) { wrong.clear_device(); }), Contains("device"));
  CHECK_THAT(refused([](auto& wrong) { wrong.set_gid("short"); }), Contains("gid"));
  CHECK_THAT(refused([](auto& wrong) { wrong.set_mtu_bytes(5000); }), Contains("mtu_bytes"));
  CHECK_THAT(refused([](auto& wrong) { wrong.set_gid_type(static_cast<doctor_wire::GidType>(9)); }),
             Contains("gid_type"));
}

TEST_CASE("what another host says cannot steer a terminal") {
  CHECK(printable("a\x1b[2Jb\nc\x7f") == "a?[2Jb c?");
  CHECK(printable("caf\xC3\xA9\xC3") == "caf\xC3\xA9?");
  CHECK(printable(std::string(5000, 'x')).size() == 4000);
}

TEST_CASE("the JSON has the meeting in numbers") {
  const Meeting meeting = good_meeting();
  const auto json = nlohmann::json::parse(to_json(Host(), {}, judge(meeting, {}), &meeting));
  CHECK(json["status"] == "ok");
  CHECK(json["peer"]["address"] == "node7:7079");
  CHECK(json["peer"]["there"]["rdma"]["device"] == "mlx5_1");
  CHECK(json["peer"]["verbs"]["bytes_per_second_there"] == 11.5e9);
  CHECK(json["peer"]["verbs"]["verified"] == true);
}

TEST_CASE("a peer's port may be left out") {
  CHECK(to_string(parse_peer("node7").value()) == "node7:7079");
  CHECK(to_string(parse_peer("node7:80").value()) == "node7:80");
  CHECK(to_string(parse_peer("[::1]").value()) == "[::1]:7079");
  CHECK(to_string(parse_peer("[::1]:80").value()) == "[::1]:80");
  CHECK_FALSE(parse_peer("::1"));
  CHECK_FALSE(parse_peer(""));
}

}  // namespace phub::doctor

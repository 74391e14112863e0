#include "server/doctor/peer/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/text/table.h"
#include "common/transport/verbs/device/gid.h"

namespace phub::doctor {
namespace {

constexpr double kGoodShare = 0.8;  // of a link's speed
constexpr double kGiga = 1e9;
constexpr double kMilli = 1e3;
constexpr double kMicro = 1e6;

constexpr const char* kCureLink =
    "do the two addresses of the GIDs reach each other (ping -I)? is UDP port 4791 (RoCE v2) open "
    "in every firewall, the VLAN the same? is memlock unlimited on both hosts?";
constexpr const char* kCureSpeed =
    "losses: PFC or ECN for this traffic class, on the cards and on every switch; a larger MTU; "
    "the "
    "card's PCIe width and speed (lspci -vv, LnkSta); CPUs of its NUMA node; nothing else on the "
    "link";

std::string gigabits(double bytes_per_second) {
  return fmt::format("{:.3g} Gb/s", bytes_per_second * 8 / kGiga);
}

std::string latency(double seconds) {
  return seconds < 1 / kMilli ? fmt::format("{:.3g} us", seconds * kMicro)
                              : fmt::format("{:.3g} ms", seconds * kMilli);
}

std::string place(const char* end, const RdmaEnd& rdma) {
  return fmt::format("{} {}", end, human_port(rdma.device, rdma.port));
}

std::string cure_of(const Meeting& meeting) {
  const std::uint16_t port = meeting.address.port;
  switch (meeting.met.code()) {
    case Code::kNotFound:
      return fmt::format("is the name right (getent hosts {})? or give the address",
                         meeting.address.host);
    case Code::kUnavailable:
      return fmt::format(
          "is `phubctl doctor --listen` running there, on port {0}? is there a route? does a "
          "firewall refuse tcp port {0}?",
          port);
    case Code::kDeadlineExceeded:
      return fmt::format(
          "does a firewall drop tcp port {}? is the host up (ping {})? is it `phubctl doctor "
          "--listen` that has this port?",
          port, meeting.address.host);
    case Code::kInvalidArgument:
      return fmt::format(
          "another program or an old version has port {}: which one is `phubctl doctor "
          "--listen`'s? "
          "are its --credentials of the same CA?",
          port);
    case Code::kResourceExhausted:
      return "try again when it is free";
    default:
      return "install the same version on both hosts";
  }
}

// Of a trial that did not end well; the cure is the transport's.
Finding unfinished(const LinkTrial& trial, const std::string& what) {
  Finding finding{Severity::kFail, what, "", trial.status.message(), ""};
  if (trial.status.code() == Code::kAborted) {
    finding.severity = Severity::kWarn;
  } else {
    finding.cure = what == "tcp" ? "does a firewall let one connection through and not the next? "
                                   "is the host overloaded?"
                                 : kCureLink;
  }
  return finding;
}

Finding without(const RdmaEnd& end, bool is_here, bool asked) {
  return {asked ? Severity::kFail : Severity::kWarn, "rdma", is_here ? "here" : "there",
          "verbs is not measured: " + end.obstacle,
          is_here ? "the findings above say more" : "`phubctl doctor` on that host says more"};
}

Finding chosen(const RdmaEnd& end, const char* where) {
  return {
      .check = "rdma",
      .where = place(where, end),
      .text = fmt::format("index {}, {}: {}", end.gid.index, to_string(end.gid), end.gid_reason)};
}

}  // namespace

double bits_per_second_of(const std::string& speed) {
  double gigabits = 0.0;
  const char* const end = speed.data() + speed.size();
  const auto [rest, error] = std::from_chars(speed.data(), end, gigabits);
  if (error != std::errc() || !std::isfinite(gigabits) || gigabits <= 0 ||
      !std::string(rest, end).starts_with(" Gb/sec")) {
    return 0.0;
  }
  return gigabits * kGiga;
}

Findings judge_peer(const Meeting& meeting) {
  Finding finding{.check = "peer", .where = to_string(meeting.address)};
  if (meeting.met.ok()) {
    finding.text = "answers: " + meeting.there.host;
    return {finding};
  }
  finding.text = meeting.met.message();
  const bool was_stopped = meeting.met.code() == Code::kAborted;
  finding.severity = was_stopped ? Severity::kWarn : Severity::kFail;
  if (!was_stopped) finding.cure = cure_of(meeting);
  return {finding};
}

Findings judge_versions(const End& here, const End& there) {
  if (here.software == there.software) {
    return {{Severity::kOk, "version", "", here.software + " on both hosts"}};
  }
  return {{Severity::kWarn, "version", "",
           fmt::format("{} here, {} there", here.software, there.software),
           "install the same version on both hosts"}};
}

Findings judge_trial(const LinkTrial& trial, const std::string& what) {
  Findings findings;
  if (trial.chunk_seconds > 0) {
    findings.push_back(
        {.check = what,
         .text = fmt::format("half a round trip {} (64 bytes), {} (32 KiB)",
                             latency(trial.ping_seconds), latency(trial.chunk_seconds))});
  }
  if (!trial.status.ok()) {
    findings.push_back(unfinished(trial, what));
    return findings;
  }
  findings.push_back({.check = what,
                      .text = fmt::format("writes of 32 KiB: {} to it, {} from it",
                                          gigabits(trial.bytes_per_second_there),
                                          gigabits(trial.bytes_per_second_back))});
  if (trial.verified_here && trial.verified_there) {
    findings.push_back({.check = what, .text = "what arrived is what was sent"});
  } else {
    findings.push_back({Severity::kFail, what,
                        trial.verified_here ? "there" : (trial.verified_there ? "here" : ""),
                        "what arrived is not what was sent",
                        "do not use this link: test memory, card and cable of the host it arrives "
                        "at"});
  }
  return findings;
}

Findings judge_mtu(const RdmaEnd& here, const RdmaEnd& there) {
  if (here.mtu_bytes == there.mtu_bytes) {
    return {{Severity::kOk, "path mtu", "", fmt::format("{} bytes at both ends", here.mtu_bytes)}};
  }
  const bool is_ethernet = here.link_layer == transport::verbs::LinkLayer::kEthernet;
  return {
      {Severity::kWarn, "path mtu", "",
       fmt::format("{} bytes here, {} there: the smaller is used", here.mtu_bytes, there.mtu_bytes),
       is_ethernet ? "the same on both hosts (ip link set dev INTERFACE mtu 9000) and on every "
                     "switch between"
                   : "the same mtu for all in the subnet manager's partitions.conf"}};
}

Findings judge_speed(const LinkTrial& trial, const RdmaEnd& here, const RdmaEnd& there) {
  const double own = bits_per_second_of(here.speed);
  const double other = bits_per_second_of(there.speed);
  if (!trial.status.ok() || own == 0.0 || other == 0.0) return {};
  const double link = std::min(own, other);
  const double slower = std::min(trial.bytes_per_second_there, trial.bytes_per_second_back);
  const double share = slower * 8 / link;
  Finding finding{.check = "speed",
                  .text = fmt::format("{} of the slower card's {}", human_share(share),
                                      own <= other ? here.speed : there.speed)};
  if (share < kGoodShare) {
    finding.severity = Severity::kWarn;
    finding.cure = kCureSpeed;
  }
  return {finding};
}

Findings judge_rdma(const Meeting& meeting, const Choices& choices) {
  const RdmaEnd& here = meeting.here.rdma;
  const RdmaEnd& there = meeting.there.rdma;
  Findings findings;
  findings.push_back(here.obstacle.empty() ? chosen(here, "here")
                                           : without(here, true, !choices.devices.empty()));
  findings.push_back(there.obstacle.empty() ? chosen(there, "there")
                                            : without(there, false, false));
  if (!meeting.route.ok()) {
    findings.push_back({Severity::kFail, "rdma", "", meeting.route.message(),
                        "two ports of one fabric: both InfiniBand, or both Ethernet with GIDs of "
                        "the same RoCE version and address family; --verbs-devices and "
                        "--verbs-gid-index on either host choose others"});
  }
  if (!meeting.verbs) return findings;
  append(findings, judge_mtu(here, there));
  append(findings, judge_trial(*meeting.verbs, "verbs"));
  append(findings, judge_speed(*meeting.verbs, here, there));
  append(findings, check_risen(meeting.verbs->risen_here, place("here", here)));
  append(findings, check_risen(meeting.verbs->risen_there, place("there", there)));
  return findings;
}

Findings judge(const Meeting& meeting, const Choices& choices) {
  Findings findings = judge_peer(meeting);
  if (!meeting.met.ok()) return findings;
  append(findings, judge_versions(meeting.here, meeting.there));
  if (meeting.tcp) append(findings, judge_trial(*meeting.tcp, "tcp"));
  append(findings, judge_rdma(meeting, choices));
  return findings;
}

}  // namespace phub::doctor

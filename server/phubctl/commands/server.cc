// server stats, drain, job plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using Stub = control::Admin::Stub;

constexpr std::int64_t kSecondsPerDay = 86'400;

std::string share_of(std::uint64_t bytes, std::uint64_t all) {
  return human_share(all == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(all));
}

std::string core_loads_table(const control::PlanReply& plan, std::uint64_t all_bytes) {
  const bool has_ports = !plan.port_loads().empty();
  Table table(has_ports ? ">SERVER|>CORE|>CHUNKS|>BYTES|>SHARE|RDMA PORT"
                        : ">SERVER|>CORE|>CHUNKS|>BYTES|>SHARE");
  for (const control::CoreLoad& load : plan.loads()) {
    std::vector<std::string> cells = {std::to_string(load.server()), std::to_string(load.core()),
                                      human_count(load.chunks()), human_bytes(load.bytes()),
                                      share_of(load.bytes(), all_bytes)};
    if (has_ports) {
      cells.push_back(load.device().empty() ? "-" : human_port(load.device(), load.port()));
    }
    table.add(std::move(cells));
  }
  return table.to_string();
}

std::string port_loads_table(const control::PlanReply& plan, std::uint64_t all_bytes) {
  Table table("RDMA PORT|>SERVER|CORES|>CHUNKS|>BYTES|>SHARE");
  for (const control::PortLoad& load : plan.port_loads()) {
    table.add({human_port(load.device(), load.port()), std::to_string(load.server()),
               fmt::format("{}", fmt::join(load.cores(), ",")), human_count(load.chunks()),
               human_bytes(load.bytes()), share_of(load.bytes(), all_bytes)});
  }
  return table.to_string();
}

std::string imbalance_text(const control::PlanReply& plan, std::uint64_t all_bytes) {
  std::uint64_t most = 0;
  for (const control::CoreLoad& load : plan.loads()) most = std::max(most, load.bytes());
  const double mean = static_cast<double>(all_bytes) / std::max(1, plan.loads_size());
  return fmt::format(
      "the rule keeps all of a key on one core: the busiest core has {:.2f}x of the mean\n",
      mean == 0.0 ? 1.0 : static_cast<double>(most) / mean);
}

const char* const kNotCounted = "-";

std::string gid_of(const control::PortInfo& port) {
  return fmt::format("{}: {} {}", port.gid_index(), port.gid_type(), port.gid());
}

std::string ports_table(const control::ServerInfo& server) {
  Table table("RDMA PORT|LINK|STATE|>NODE|>MTU|CORES|GID|>RECEIVED|>SENT|>PACKETS IN|>PACKETS OUT");
  for (const control::PortInfo& port : server.ports()) {
    table.add({human_port(port.device(), port.port()), port.link_layer(), port.state(),
               port.numa_node() < 0 ? "-" : std::to_string(port.numa_node()),
               std::to_string(port.mtu_bytes()), fmt::format("{}", fmt::join(port.cores(), ",")),
               gid_of(port),
               port.has_bytes_received() ? human_bytes(port.bytes_received()) : kNotCounted,
               port.has_bytes_sent() ? human_bytes(port.bytes_sent()) : kNotCounted,
               port.has_packets_received() ? human_count(port.packets_received()) : kNotCounted,
               port.has_packets_sent() ? human_count(port.packets_sent()) : kNotCounted});
  }
  return table.to_string();
}

// Empty: there is nothing to tell.
std::string signs_table(const control::ServerInfo& server) {
  Table table("RDMA PORT|SIGN OF|COUNTER|>VALUE");
  for (const control::PortInfo& port : server.ports()) {
    for (const control::PortCounter& counter : port.counters()) {
      if (counter.kind().empty() || counter.value() == 0) continue;
      table.add({human_port(port.device(), port.port()), counter.kind(), counter.name(),
                 human_count(counter.value())});
    }
  }
  return table.empty() ? "" : table.to_string();
}

std::string chunks_text(const control::PlanReply& plan) {
  Table table(">CHUNK|>SERVER|>CORE|>ELEMENTS|>KEYS|FIRST KEY");
  for (const control::PlanChunk& chunk : plan.chunks()) {
    table.add({std::to_string(chunk.chunk()), std::to_string(chunk.server()),
               std::to_string(chunk.core()), human_count(chunk.elements()),
               std::to_string(chunk.keys()), chunk.first_key()});
  }
  return "\n" + table.to_string();
}

std::string cores_text(const control::ServerInfo& server) {
  Table table(">CORE|>CPU|>CONNECTIONS|>CHUNKS|>RECEIVED|>SENT|>BUSY|>SLEEPS");
  for (const control::CoreInfo& core : server.cores()) {
    table.add({std::to_string(core.core()), core.cpu() < 0 ? "-" : std::to_string(core.cpu()),
               std::to_string(core.connections()), human_count(core.chunks_completed()),
               human_bytes(core.bytes_received()), human_bytes(core.bytes_sent()),
               human_share(core.busy_share()), human_count(core.sleeps())});
  }
  return "\n" + table.to_string();
}

// The certificates of the control port; empty: it has no TLS.
std::string certificates_text(const control::ServerInfo& server) {
  Table table("CERTIFICATE|EXPIRES|>IN DAYS");
  for (const control::CertificateInfo& certificate : server.certificates()) {
    const std::int64_t left = certificate.expires_unix_seconds() - std::time(nullptr);
    table.add({certificate.what(), time_text(certificate.expires_unix_seconds()),
               left <= 0 ? "expired" : std::to_string(left / kSecondsPerDay)});
  }
  return table.empty() ? "" : "\n" + table.to_string();
}

std::string drops_text(const control::ServerInfo& server) {
  Table table("DROPPED INPUT|>COUNT");
  for (const control::Drop& drop : server.drops()) {
    if (drop.count() == 0) continue;
    table.add({drop.cause(), human_count(drop.count())});
  }
  return table.empty() ? "" : "\n" + table.to_string();
}

std::string statistics_text(const control::StatisticsReply& reply) {
  const control::ServerInfo& server = reply.server();
  Table table("|");
  table.add({"phub-server", server.version()});
  table.add({"state", server.draining() ? "draining: takes no new jobs" : "serving"});
  table.add({"up for", human_seconds(server.uptime_seconds())});
  table.add({"live jobs", std::to_string(server.jobs())});
  // A tenant is not told what all of them use together.
  if (server.resident_bytes() > 0) {
    table.add({"resident memory", human_bytes(server.resident_bytes())});
  }
  table.add({"waiting", server.waiting()});
  table.add(
      {"tcp data plane", server.encrypts_data() ? "encrypted (AES-128-GCM)" : "not encrypted"});
  const std::string ports = ports_text(server);
  return table.to_string() + cores_text(server) + (ports.empty() ? "" : "\n" + ports) +
         certificates_text(server) + drops_text(server);
}

}  // namespace

std::string loads_text(const control::PlanReply& plan) {
  std::uint64_t all_bytes = 0;
  for (const control::CoreLoad& load : plan.loads()) all_bytes += load.bytes();
  std::string cores = core_loads_table(plan, all_bytes);
  if (plan.whole_keys()) cores += "\n" + imbalance_text(plan, all_bytes);
  return plan.port_loads().empty() ? cores : cores + "\n" + port_loads_table(plan, all_bytes);
}

std::string ports_text(const control::ServerInfo& server) {
  if (server.ports().empty()) return "";
  const std::string signs = signs_table(server);
  return ports_table(server) + (signs.empty() ? "" : "\n" + signs);
}

Status print_plan(const Session& session, const std::string& name, bool with_chunks) {
  const auto text = [&](const control::PlanReply& reply) {
    return fmt::format(
        "{} chunks of at most {}, plan hash {:016x}{}\n{}{}{}",
        human_count(static_cast<std::uint64_t>(reply.chunks_size())),
        human_bytes(reply.chunk_bytes()), reply.hash(),
        reply.is_preview() ? " (no worker is ready: planned for this server alone)" : "",
        loads_text(reply), roots_text(reply), with_chunks ? chunks_text(reply) : "");
  };
  return session.show(&Stub::Plan, session.about<control::PlanRequest>(name), text, name);
}

Status print_statistics(const Session& session) {
  return session.show(&Stub::Statistics, control::StatisticsRequest(), statistics_text);
}

Status drain(const Session& session, std::uint32_t deadline_ms, bool snapshots) {
  control::DrainRequest request;
  request.set_timeout_ms(deadline_ms);
  request.set_snapshots(snapshots);
  return session.show(&Stub::Drain, request, [&](const control::DrainReply& reply) {
    const std::string within =
        deadline_ms == 0 ? "" : " within " + human_seconds(deadline_ms / 1000.0);
    return fmt::format("the server takes no new jobs; {}. Stop it with SIGTERM.",
                       reply.jobs_running() == 0
                           ? "no job is left"
                           : fmt::format("{} {} may finish{}", reply.jobs_running(),
                                         reply.jobs_running() == 1 ? "job" : "jobs", within));
  });
}

}  // namespace phub::phubctl

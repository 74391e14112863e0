// server stats, drain, job plan.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using Stub = control::Admin::Stub;

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

std::string drops_text(const control::ServerInfo& server) {
  Table table("DROPPED INPUT|>COUNT");
  bool has_drops = false;
  for (const control::Drop& drop : server.drops()) {
    if (drop.count() == 0) continue;
    table.add({drop.cause(), human_count(drop.count())});
    has_drops = true;
  }
  return has_drops ? "\n" + table.to_string() : "";
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
         drops_text(server);
}

}  // namespace

Status print_plan(const Session& session, const std::string& name, bool with_chunks) {
  const auto text = [&](const control::PlanReply& reply) {
    return fmt::format(
        "{} chunks of at most {}, plan hash {:016x}{}\n{}{}",
        human_count(static_cast<std::uint64_t>(reply.chunks_size())),
        human_bytes(reply.chunk_bytes()), reply.hash(),
        reply.is_preview() ? " (no worker is ready: planned for this server alone)" : "",
        loads_text(reply), with_chunks ? chunks_text(reply) : "");
  };
  return session.show(&Stub::Plan, session.about<control::PlanRequest>(name), text);
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
                           : fmt::format("{} jobs may finish{}", reply.jobs_running(), within));
  });
}

}  // namespace phub::phubctl

// server stats, drain, job plan.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/commands/plan.h"
#include "server/phubctl/commands/ports.h"

namespace phub::phubctl {
namespace {

void print_chunks(const control::PlanReply& plan) {
  Table table({{"CHUNK", Align::kRight},
               {"SERVER", Align::kRight},
               {"CORE", Align::kRight},
               {"ELEMENTS", Align::kRight},
               {"KEYS", Align::kRight},
               {"FIRST KEY"}});
  for (const control::PlanChunk& chunk : plan.chunks()) {
    table.add({std::to_string(chunk.chunk()), std::to_string(chunk.server()),
               std::to_string(chunk.core()), human_count(chunk.elements()),
               std::to_string(chunk.keys()), chunk.first_key()});
  }
  print("\n" + table.to_string());
}

void print_cores(const control::ServerInfo& server) {
  Table table({{"CORE", Align::kRight},
               {"CPU", Align::kRight},
               {"CONNECTIONS", Align::kRight},
               {"CHUNKS", Align::kRight},
               {"RECEIVED", Align::kRight},
               {"SENT", Align::kRight},
               {"BUSY", Align::kRight},
               {"SLEEPS", Align::kRight}});
  for (const control::CoreInfo& core : server.cores()) {
    table.add({std::to_string(core.core()), core.cpu() < 0 ? "-" : std::to_string(core.cpu()),
               std::to_string(core.connections()), human_count(core.chunks_completed()),
               human_bytes(core.bytes_received()), human_bytes(core.bytes_sent()),
               human_share(core.busy_share()), human_count(core.sleeps())});
  }
  print("\n" + table.to_string());
}

void print_drops(const control::ServerInfo& server) {
  Table table({{"DROPPED INPUT"}, {"COUNT", Align::kRight}});
  bool has_drops = false;
  for (const control::Drop& drop : server.drops()) {
    if (drop.count() == 0) continue;
    table.add({drop.cause(), human_count(drop.count())});
    has_drops = true;
  }
  if (has_drops) print("\n" + table.to_string());
}

}  // namespace

Status print_plan(const Session& session, const std::string& name, bool with_chunks) {
  const auto request = session.about<control::PlanRequest>(name);
  control::PlanReply reply;
  PHUB_RETURN_IF_ERROR(session.client.call(&control::Admin::Stub::Plan, request, reply));
  if (session.as_json) {
    print(message_json(reply));
    return {};
  }
  print(fmt::format(
      "{} chunks of at most {}, plan hash {:016x}{}\n",
      human_count(static_cast<std::uint64_t>(reply.chunks_size())),
      human_bytes(reply.chunk_bytes()), reply.hash(),
      reply.is_preview() ? " (no worker is ready: planned for this server alone)" : ""));
  print(loads_text(reply));
  if (with_chunks) print_chunks(reply);
  return {};
}

Status print_statistics(const Session& session) {
  control::StatisticsReply reply;
  PHUB_RETURN_IF_ERROR(
      session.client.call(&control::Admin::Stub::Statistics, control::StatisticsRequest(), reply));
  if (session.as_json) {
    print(message_json(reply));
    return {};
  }
  const control::ServerInfo& server = reply.server();
  Table table({{"phub-server"}, {server.version()}});
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
  print(table.to_string());
  print_cores(server);
  if (const std::string ports = ports_text(server); !ports.empty()) print("\n" + ports);
  print_drops(server);
  return {};
}

Status drain(const Session& session, std::uint32_t deadline_ms, bool snapshots) {
  control::DrainRequest request;
  request.set_timeout_ms(deadline_ms);
  request.set_snapshots(snapshots);
  control::DrainReply reply;
  PHUB_RETURN_IF_ERROR(session.client.call(&control::Admin::Stub::Drain, request, reply));
  if (session.as_json) {
    print(message_json(reply));
    return {};
  }
  const std::string rest = reply.jobs_running() == 0 ? "no job is left"
                           : deadline_ms == 0
                               ? fmt::format("{} jobs may finish", reply.jobs_running())
                               : fmt::format("{} jobs may finish within {}", reply.jobs_running(),
                                             human_seconds(deadline_ms / 1000.0));
  print("the server takes no new jobs; " + rest + ". Stop it with SIGTERM.");
  return {};
}

}  // namespace phub::phubctl

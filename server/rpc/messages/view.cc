#include <algorithm>

#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

void redact_other_tenants(const std::string& tenant, control::CoreInfo& core) {
  auto& jobs = *core.mutable_jobs();
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                            [&](const control::CoreJob& job) { return job.tenant() != tenant; }),
             jobs.end());
  std::uint64_t chunks = 0;
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  for (const control::CoreJob& job : jobs) {
    chunks += job.chunks_completed();
    received += job.bytes_received();
    sent += job.bytes_sent();
  }
  core.set_chunks_completed(chunks);
  core.set_bytes_received(received);
  core.set_bytes_sent(sent);
  core.clear_sleeps();
  core.clear_connections();
}

}  // namespace

void redact_other_tenants(const std::string& tenant, const Usage& usage,
                          control::ServerInfo& server) {
  for (control::CoreInfo& core : *server.mutable_cores()) redact_other_tenants(tenant, core);
  for (control::PortInfo& port : *server.mutable_ports()) {
    port.clear_bytes_received();
    port.clear_bytes_sent();
    port.clear_packets_received();
    port.clear_packets_sent();
    port.clear_counters();
  }
  server.set_jobs(usage.jobs);
  server.clear_resident_bytes();
  server.clear_drops();
}

}  // namespace phub::server

#include "bench/rack/cluster.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>

#include "bench/processes/phub_servers.h"
#include "bench/rack/faults.h"
#include "bench/rack/replay.h"
#include "bench/rack/scenario.h"

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kStartTimeout{60};
constexpr std::chrono::seconds kStopTimeout{5};

std::string control_address(const RackHost& host) {
  return fmt::format("{}:{}", host.address, host.control_port);
}

// Where it is, and all others.
std::string rack_config(const RackHost& own, const Fabric& fabric) {
  std::string directory;
  for (std::uint32_t rack = 0; rack < fabric.racks; ++rack) {
    directory += fmt::format("  racks {{ name: \"{}\"", rack_name(rack));
    for (const RackHost& host : fabric.hosts) {
      if (host.rack != rack || !host.has_server) continue;
      directory += fmt::format(" servers: \"{}\"", control_address(host));
    }
    directory += " }\n";
  }
  return fmt::format("rack: \"{}\"\ndirectory {{\n{}}}\n", rack_name(own.rack), directory);
}

// The servers share this machine's CPUs with the workers, which a host of its own would not.
std::string server_config(const RackHost& host, const Fabric& fabric,
                          const RackScenario& scenario) {
  const RackServers& settings = scenario.servers();
  const std::string racks = is_joined(scenario) ? rack_config(host, fabric) : "";
  return racks + fmt::format(
                     "control_address: \"{}\"\ndata_address: \"{}:0\"\n{}"
                     "transports: \"tcp\"\ntcp_buffer_kib: {}\nlog_level: \"warn\"\n"
                     "cores: {}\nallow_oversubscription: true\ntcp_congestion_control: \"{}\"\n"
                     "security {{ tokens: \"off\" allow_plaintext: true }}\n",
                     control_address(host), host.address,
                     host.workers > 0 ? "transports: \"shm\"\n" : "", settings.tcp_buffer_kib(),
                     settings.cores(), settings.tcp_congestion_control());
}

std::string job_of(const RackScenario& scenario) {
  return is_joined(scenario) ? fmt::format("{}-{}", kJobName, scenario.shape()) : kJobName;
}

Result<HostProgram> worker_program(const RackScenario& scenario, const ServedWork& served) {
  if (scenario.has_replay()) return replay_program(scenario, served);
  return HostProgram{.program = "phub-bench",
                     .words = {"exchange-worker", nlohmann::json(served).dump()}};
}

}  // namespace

Result<std::unique_ptr<RackCluster>> RackCluster::start(const Fabric& fabric,
                                                        const RackScenario& scenario,
                                                        const RackSite& site, Places& places) {
  std::unique_ptr<RackCluster> cluster(new RackCluster());
  cluster->is_joined_ = is_joined(scenario);
  cluster->is_elsewhere_ = site.is_elsewhere();
  std::vector<ChildProcess*> punctual;
  for (const RackHost& host : fabric.hosts) {
    if (!host.has_server) continue;
    const ServerProgram server = delayed_server(scenario.links().latency_us());
    const HostProgram program{.program = server.program,
                              .words = server.words,
                              .config = server_config(host, fabric, scenario),
                              .late_s = late_seconds(scenario, host)};
    PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> command, site.command(host, program));
    PHUB_ASSIGN_OR_RETURN(auto process,
                          ChildProcess::start({.name = fmt::format("phub-server {}", host.name),
                                               .command = command,
                                               .log_path = places.fresh_path(host.name + ".log"),
                                               .holds_input = true}));
    if (program.late_s <= 0) punctual.push_back(process.get());
    cluster->servers_.push_back(std::move(process));
    cluster->addresses_.push_back({host.rack, control_address(host)});
  }
  const Deadline deadline = std::chrono::steady_clock::now() + kStartTimeout;
  for (ChildProcess* const server : punctual) {
    const Result<std::string> ready = server->read_output_line(deadline);
    if (!ready) return ready.error();
  }
  return cluster;
}

RackCluster::~RackCluster() {
  const Deadline deadline = std::chrono::steady_clock::now() + kStopTimeout;
  for (const auto& server : servers_) server->close_input();
  // A signal would only end our side of it.
  for (const auto& server : servers_) {
    if (is_elsewhere_) (void)server->await_end(deadline);
  }
  for (const auto& server : servers_) server->stop(SIGTERM, deadline);
}

std::vector<std::string> RackCluster::addresses_for(const RackHost& host) const {
  std::vector<std::string> own;
  for (const Address& address : addresses_) {
    if (!is_joined_ || address.rack == host.rack) own.push_back(address.text);
  }
  return own;
}

void RackCluster::kill(std::uint32_t server) { ::kill(servers_[server]->pid(), SIGKILL); }

Result<std::unique_ptr<System>> start_exchange(const Fabric& fabric, const RackScenario& scenario,
                                               const RackCluster& cluster, const RackSite& site,
                                               Places& places) {
  const Work work = work_of(scenario);
  ProcessGroup::Options workers{.name = "phub",
                                .workers = work.workers,
                                .commands = {},
                                .log_path = places.fresh_path("workers.log"),
                                .control_path = places.fresh_path("control"),
                                .by_streams = site.is_elsewhere(),
                                .interrupt_fd = places.interrupt_fd(),
                                .may_fail = scenario.faults_size() > 0};
  for (const RackHost& host : fabric.hosts) {
    if (host.workers == 0) continue;
    PHUB_ASSIGN_OR_RETURN(HostProgram program,
                          worker_program(scenario, {.work = work,
                                                    .addresses = cluster.addresses_for(host),
                                                    .job = job_of(scenario)}));
    program.late_s = late_seconds(scenario, host);
    PHUB_ASSIGN_OR_RETURN(auto command, site.command(host, program));
    workers.commands.insert(workers.commands.end(), host.workers, command);
  }
  auto system = std::make_unique<System>();
  system->work = work;
  system->has_one_clock = !site.is_elsewhere();
  PHUB_ASSIGN_OR_RETURN(system->group, ProcessGroup::start(workers));
  return system;
}

}  // namespace phub::bench

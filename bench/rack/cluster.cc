#include "bench/rack/cluster.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <fstream>

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kStartTimeout{60};
constexpr std::chrono::seconds kStopTimeout{5};
constexpr int kControlPort = 7077;  // in a namespace of its own it is free

std::string control_address(const RackHost& host) {
  return fmt::format("{}:{}", host.address, kControlPort);
}

// The servers share this machine's CPUs with the workers, which a host of its own would not.
Result<std::string> write_configuration(const RackHost& host, const Work& work, Places& places) {
  const std::string path = places.fresh_path(host.name + ".textproto");
  std::ofstream file(path);
  file << fmt::format(
      "control_address: \"{}\"\ndata_address: \"{}:0\"\ntransports: \"tcp\"\nlog_level: \"warn\"\n"
      "cores: {}\nallow_oversubscription: true\ntcp_congestion_control: \"{}\"\n"
      "security {{ tokens: \"off\" allow_plaintext: true }}\n",
      control_address(host), host.address, work.server_cores, work.congestion);
  if (!file.flush()) return errno_status(path);
  return path;
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

Result<std::unique_ptr<RackCluster>> RackCluster::start(const Fabric& fabric, const Work& work,
                                                        const Testbed& testbed,
                                                        const RackTools& tools, Places& places) {
  std::unique_ptr<RackCluster> cluster(new RackCluster());
  PHUB_ASSIGN_OR_RETURN(const std::string program, places.program("phub-server"));
  std::vector<std::string> addresses;
  for (const RackHost& host : fabric.hosts) {
    if (!host.is_server) continue;
    PHUB_ASSIGN_OR_RETURN(const std::string path, write_configuration(host, work, places));
    PHUB_ASSIGN_OR_RETURN(
        auto process, ChildProcess::start({.name = fmt::format("phub-server {}", host.name),
                                           .command = joined(tools.within(testbed.space(host.name)),
                                                             {program, "--config", path}),
                                           .log_path = places.fresh_path(host.name + ".log")}));
    cluster->servers_.push_back(std::move(process));
    addresses.push_back(control_address(host));
  }
  const Deadline deadline = std::chrono::steady_clock::now() + kStartTimeout;
  for (const auto& server : cluster->servers_) {
    const Result<std::string> ready = server->read_output_line(deadline);
    if (!ready) return ready.error();
  }
  PHUB_ASSIGN_OR_RETURN(const std::string self, places.program("phub-bench"));
  const nlohmann::json options = ServedWork{work, addresses};
  const std::vector<std::string> command = {self, "exchange-worker", options.dump()};
  ProcessGroup::Options workers{.name = "phub",
                                .workers = work.workers,
                                .commands = {},
                                .log_path = places.fresh_path("workers.log"),
                                .control_path = places.fresh_path("control"),
                                .interrupt_fd = places.interrupt_fd()};
  for (const RackHost& host : fabric.hosts) {
    if (host.is_server) continue;
    workers.commands.push_back(joined(tools.within(testbed.space(host.name)), command));
  }
  cluster->system_.work = work;
  PHUB_ASSIGN_OR_RETURN(cluster->system_.group, ProcessGroup::start(workers));
  return cluster;
}

RackCluster::~RackCluster() {
  system_.group.reset();
  const Deadline deadline = std::chrono::steady_clock::now() + kStopTimeout;
  for (const auto& server : servers_) server->stop(SIGTERM, deadline);
}

}  // namespace phub::bench

#include "bench/rack/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "bench/rack/scenario.h"

namespace phub::bench {
namespace {

using Command = std::vector<std::string>;

std::vector<const RackHost*> workers_in(const Fabric& fabric) {
  std::vector<const RackHost*> workers;
  for (const RackHost& host : fabric.hosts) {
    workers.insert(workers.end(), host.workers, &host);
  }
  return workers;
}

Command sizes_of(const Work& work) {
  return {"--workers", std::to_string(work.workers), "--elements", std::to_string(work.elements)};
}

Result<std::vector<Command>> gloo_workers(SystemKind kind, const Fabric& fabric, const Work& work,
                                          const Testbed& testbed, Places& places) {
  const std::string meeting = places.fresh_path("gloo");
  std::error_code error;
  if (!std::filesystem::create_directory(meeting, error)) return errno_status(meeting);
  std::vector<Command> commands;
  for (const RackHost* const host : workers_in(fabric)) {
    Command words = sizes_of(work);
    words.insert(words.end(), {"--directory", meeting, "--host", host->address, "--algorithm",
                               kind == SystemKind::kGlooRing ? "ring" : "halving-doubling"});
    PHUB_ASSIGN_OR_RETURN(auto command,
                          testbed.command(*host, {.program = "phub-bench-gloo", .words = words}));
    commands.push_back(std::move(command));
  }
  return commands;
}

// mpirun runs on the first worker's host and starts a daemon on each other.
Result<std::vector<Command>> openmpi_workers(const Fabric& fabric, const Work& work,
                                             const Testbed& testbed, Places& places) {
  const std::string agent = places.fresh_path("agent.sh");
  std::ofstream file(agent);
  file << launch_agent(fabric, testbed);
  file.close();
  std::error_code error;
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all, error);
  if (!file || error) return errno_status(agent);
  const std::vector<const RackHost*> workers = workers_in(fabric);
  std::vector<std::string> hosts;
  for (const RackHost* const host : workers) hosts.push_back(host->address);
  PHUB_ASSIGN_OR_RETURN(const std::string program, places.program("phub-bench-openmpi"));
  // Daemons stay children of the agents, which are mpirun's, so that somebody waits for their end.
  Command command = testbed.within(*workers.front());
  command.insert(command.end(), {"mpirun", "--allow-run-as-root", "--leave-session-attached", "-np",
                                 std::to_string(work.workers), "--map-by", "node"});
  command.insert(command.end(),
                 {"--bind-to", "none", "--host", fmt::format("{}", fmt::join(hosts, ","))});
  const auto set = [&command](const std::string& name, const std::string& value) {
    command.insert(command.end(), {"--mca", name, value});
  };
  set("plm_rsh_agent", agent);
  set("plm_rsh_no_tree_spawn", "1");
  set("pml", "ob1");
  set("btl", "self,tcp");
  set("btl_tcp_if_include", std::string(kNic));
  set("oob_tcp_if_include", std::string(kNic));
  set("routed", "direct");          // on a busy machine daemons lose other routes to each other
  set("mpi_yield_when_idle", "1");  // hosts share the machine's CPUs
  set("orte_tmpdir_base", places.scratch().string());
  command.push_back(program);
  const Command sizes = sizes_of(work);
  command.insert(command.end(), sizes.begin(), sizes.end());
  return std::vector<Command>{command};
}

}  // namespace

std::string launch_agent(const Fabric& fabric, const Testbed& testbed) {
  std::string script = "#!/bin/sh\naddress=$1\nshift\ncase $address in\n";
  for (const RackHost* const host : workers_in(fabric)) {
    script += fmt::format("{}) exec {} sh -c \"$*\" ;;\n", host->address,
                          fmt::join(testbed.within(*host), " "));
  }
  return script + "esac\necho \"no such host: $address\" >&2\nexit 1\n";
}

Result<std::unique_ptr<System>> start_peer(const std::string& name, const Fabric& fabric,
                                           const RackScenario& scenario, const Testbed& testbed,
                                           Places& places) {
  auto system = std::make_unique<System>();
  system->work = work_of(scenario);
  system->kind = static_cast<SystemKind>(std::find(kSystemNames.begin(), kSystemNames.end(), name) -
                                         kSystemNames.begin());
  // phub's own sockets ask for it.
  const std::string& congestion = scenario.servers().tcp_congestion_control();
  for (const RackHost* const host : workers_in(fabric)) {
    if (congestion == "auto" || congestion == "system") break;
    PHUB_RETURN_IF_ERROR(testbed.set_congestion(*host, congestion));
  }
  const bool is_mpi = system->kind == SystemKind::kOpenMpi;
  PHUB_ASSIGN_OR_RETURN(const std::vector<Command> commands,
                        is_mpi ? openmpi_workers(fabric, system->work, testbed, places)
                               : gloo_workers(system->kind, fabric, system->work, testbed, places));
  // Gloo's ring is the faster of two, which it tries over these links before it says hello.
  PHUB_ASSIGN_OR_RETURN(
      system->group,
      ProcessGroup::start({.name = name,
                           .workers = system->work.workers,
                           .commands = commands,
                           .log_path = places.fresh_path(name + ".log"),
                           .control_path = places.fresh_path("control"),
                           .start_timeout = std::chrono::seconds(scenario.exchange().timeout_s()),
                           .interrupt_fd = places.interrupt_fd()}));
  return system;
}

}  // namespace phub::bench

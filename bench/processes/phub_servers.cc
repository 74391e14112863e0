#include "bench/processes/phub_servers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "bench/processes/admin_call.h"
#include "common/base/affinity.h"

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kServerStartTimeout{30};
constexpr std::chrono::seconds kServerStopTimeout{5};
constexpr std::uint64_t kKib = 1024;

// Resident bytes of all mappings of the memory that libphub allocates for a worker's gradients.
std::uint64_t resident_gradients(pid_t pid) {
  std::uint64_t bytes = 0;
  bool gradients = false;
  std::ifstream mappings(fmt::format("/proc/{}/smaps", pid));
  for (std::string line; std::getline(mappings, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    words >> name;
    if (name.back() != ':') {  // "7f8f-7f90 r--s ... /memfd:phub-gradients": a mapping begins
      gradients = line.find("/memfd:phub-gradients") != std::string::npos;
    } else if (gradients && name == "Rss:" && words >> kib) {
      bytes += kib * kKib;
    }
  }
  return bytes;
}

// Adds what a process holds.
void add_resident(pid_t pid, ServerMemory& sum) {
  std::uint64_t shared = 0;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    words >> name >> kib;
    if (name == "RssAnon:") sum.anonymous += kib * kKib;
    if (name == "RssShmem:") shared = kib * kKib;
  }
  sum.shared += shared;
  sum.gradients += std::min(resident_gradients(pid), shared);
}

// The value of `name=value` in the server's ready line.
Result<std::string> field(const std::string& line, const std::string& name) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return Status(Code::kInternal, fmt::format("phub-server printed '{}' without {}=", line, name));
}

}  // namespace

ServerProgram delayed_server(std::uint32_t delay_us) {
  if (delay_us == 0) return {};
  return {"phub-bench", {"delayed-server", std::to_string(delay_us)}};
}

Result<PhubServer> start_server(const std::string& name, std::span<const std::uint32_t> cpus,
                                const std::string& settings, Places& places,
                                const ServerProgram& run) {
  std::vector<std::string> command = run.words;
  PHUB_ASSIGN_OR_RETURN(const std::string program, places.program(run.program));
  command.insert(command.begin(), program);
  const std::string path = places.fresh_path("phub-server.textproto");
  std::ofstream file(path);
  file << "control_address: \"127.0.0.1:0\"\ndata_address: \"127.0.0.1:0\"\nlog_level: \"warn\"\n"
       << fmt::format("cpus: [{}]\n", fmt::join(cpus, ", ")) << settings;
  if (!file.flush()) return errno_status(path);
  command.push_back(path);
  PhubServer server;
  PHUB_ASSIGN_OR_RETURN(server.process,
                        ChildProcess::start({.name = name,
                                             .command = std::move(command),
                                             .log_path = places.fresh_path("phub-server.log")}));
  const Deadline deadline = std::chrono::steady_clock::now() + kServerStartTimeout;
  PHUB_ASSIGN_OR_RETURN(const std::string line, server.process->read_output_line(deadline));
  PHUB_ASSIGN_OR_RETURN(server.address, field(line, "control"));
  PHUB_ASSIGN_OR_RETURN(server.data_port, field(line, "data"));
  return server;
}

Result<std::unique_ptr<PhubServers>> PhubServers::start(const Work& work, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> cpus, usable_cpus());
  if (work.server_cores > cpus.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--server-cores {}: this machine has {} usable CPUs",
                              work.server_cores, cpus.size()));
  }
  std::string settings = fmt::format("tcp_congestion_control: \"{}\"\n", work.congestion);
  if (work.encrypt) settings += "security { tokens: \"off\" encrypt_data: true }\n";
  std::unique_ptr<PhubServers> started(new PhubServers());
  for (std::uint32_t i = 0; i < work.servers; ++i) {
    // Servers on one machine get CPUs of their own as far as there are enough.
    std::vector<std::uint32_t> own;
    for (std::uint32_t core = 0; core < work.server_cores; ++core) {
      own.push_back(cpus[(i * work.server_cores + core) % cpus.size()]);
    }
    PHUB_ASSIGN_OR_RETURN(auto server, start_server(fmt::format("phub-server {}", i), own, settings,
                                                    places, delayed_server(work.tcp_delay_us)));
    add_resident(server.process->pid(), started->idle_);
    started->servers_.push_back(std::move(server));
  }
  return started;
}

PhubServers::~PhubServers() {
  const Deadline deadline = std::chrono::steady_clock::now() + kServerStopTimeout;
  for (const PhubServer& server : servers_) server.process->stop(SIGTERM, deadline);
}

std::vector<std::string> PhubServers::addresses() const {
  std::vector<std::string> all;
  for (const PhubServer& server : servers_) all.push_back(server.address);
  return all;
}

Result<ServerMemory> PhubServers::memory() const {
  ServerMemory total;
  total.idle = idle_.anonymous + idle_.shared;
  for (const PhubServer& server : servers_) {
    add_resident(server.process->pid(), total);
    control::InspectJobRequest request;
    request.set_name(kJobName);
    control::InspectJobReply reply;
    PHUB_RETURN_IF_ERROR(
        call_admin(server.address, &control::Admin::Stub::InspectJob, request, reply)
            .with_context(fmt::format("inspecting job {} at {}", kJobName, server.address)));
    total.job += reply.job().statistics().memory_bytes();
    total.job_staging += reply.job().statistics().staging_bytes();
  }
  return total;
}

}  // namespace phub::bench

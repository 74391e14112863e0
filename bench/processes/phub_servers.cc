#include "bench/processes/phub_servers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "bench/processes/job_memory.h"
#include "common/base/affinity.h"

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kStartTimeout{20};
constexpr std::chrono::seconds kServerStopTimeout{5};
constexpr std::uint64_t kKib = 1024;

struct Resident {
  std::uint64_t anonymous = 0;
  std::uint64_t shared = 0;
  std::uint64_t gradients = 0;
};

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

Resident resident(pid_t pid) {
  Resident found;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    words >> name >> kib;
    if (name == "RssAnon:") found.anonymous = kib * kKib;
    if (name == "RssShmem:") found.shared = kib * kKib;
  }
  found.gradients = resident_gradients(pid);
  return found;
}

// A configuration that pins the server's cores; servers on one machine get CPUs of their own as
// far as there are enough.
Result<std::string> write_configuration(const Work& work, std::uint32_t server, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> cpus, usable_cpus());
  if (work.server_cores > cpus.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--server-cores {}: this machine has {} usable CPUs",
                              work.server_cores, cpus.size()));
  }
  const std::string path = places.fresh_path("phub-server.textproto");
  std::ofstream file(path);
  file << "control_address: \"127.0.0.1:0\"\ndata_address: \"127.0.0.1:0\"\nlog_level: \"warn\"\n";
  file << fmt::format("tcp_congestion_control: \"{}\"\n", work.congestion);
  if (work.encrypt) file << "security { tokens: \"off\" encrypt_data: true }\n";
  for (std::uint32_t core = 0; core < work.server_cores; ++core) {
    file << fmt::format("cpus: {}\n", cpus[(server * work.server_cores + core) % cpus.size()]);
  }
  if (!file.flush()) return errno_status(path);
  return path;
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

Result<std::unique_ptr<PhubServers>> PhubServers::start(const Work& work, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const std::string program, places.program("phub-server"));
  std::unique_ptr<PhubServers> servers(new PhubServers());
  for (std::uint32_t i = 0; i < work.servers; ++i) {
    PHUB_ASSIGN_OR_RETURN(const std::string path, write_configuration(work, i, places));
    PHUB_ASSIGN_OR_RETURN(auto process,
                          ChildProcess::start({.name = fmt::format("phub-server {}", i),
                                               .command = {program, "--config", path},
                                               .log_path = places.fresh_path("phub-server.log")}));
    const Deadline deadline = std::chrono::steady_clock::now() + kStartTimeout;
    PHUB_ASSIGN_OR_RETURN(const std::string line, process->read_output_line(deadline));
    PHUB_ASSIGN_OR_RETURN(const std::string address, field(line, "control"));
    servers->addresses_.push_back(address);
    const Resident now = resident(process->pid());
    servers->idle_bytes_ += now.anonymous + now.shared;
    servers->processes_.push_back(std::move(process));
  }
  return servers;
}

PhubServers::~PhubServers() {
  const Deadline deadline = std::chrono::steady_clock::now() + kServerStopTimeout;
  for (const auto& process : processes_) process->stop(SIGTERM, deadline);
}

std::string PhubServers::addresses() const { return fmt::format("{}", fmt::join(addresses_, ",")); }

Result<ServerMemory> PhubServers::memory(const std::string& job) const {
  ServerMemory total;
  total.idle = idle_bytes_;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Resident now = resident(processes_[i]->pid());
    total.anonymous += now.anonymous;
    total.shared += now.shared;
    total.gradients += std::min(now.gradients, now.shared);
    PHUB_ASSIGN_OR_RETURN(const JobMemory reported, job_memory(addresses_[i], job));
    total.job += reported.bytes;
    total.job_staging += reported.staging_bytes;
  }
  return total;
}

}  // namespace phub::bench

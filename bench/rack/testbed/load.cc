#include "bench/rack/testbed/load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/affinity.h"

namespace phub::bench {
namespace {

// Field 14 and 15 of /proc/PID/stat, if field 4 says that it is a child of ours; else 0.
double child_seconds(const std::string& stat_path) {
  constexpr int kFieldsBetween = 9;  // from the parent, field 4, to the CPU times, field 14
  std::ifstream file(stat_path);
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;  // it has just ended
  std::istringstream words(line.substr(name_end + 1));
  std::string skipped;
  pid_t parent = 0;
  words >> skipped >> parent;
  if (parent != ::getpid()) return 0;
  for (int i = 0; i < kFieldsBetween; ++i) words >> skipped;
  double user = 0;
  double system = 0;
  words >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Of children that have ended and been waited for.
double ended_seconds() {
  constexpr double kMicroseconds = 1e-6;
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         kMicroseconds * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double children_seconds() {
  double sum = ended_seconds();
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      sum += child_seconds(entry->path().string() + "/stat");
    }
  }
  return sum;
}

double share(const CpuTime& cpu) { return cpu.busy_since({}); }

}  // namespace

Result<std::vector<LinkBytes>> parse_link_bytes(std::string_view json, const Fabric& fabric) {
  const auto list = nlohmann::json::parse(json, nullptr, false);
  std::map<std::string, LinkBytes> found;
  if (list.is_array()) {
    for (const auto& entry : list) {
      if (!entry.contains("ifname") || !entry.contains("stats64")) continue;
      // A port receives what its host sends.
      found[entry["ifname"].get<std::string>()] = {
          .up = entry["stats64"]["rx"].value("bytes", std::uint64_t{0}),
          .down = entry["stats64"]["tx"].value("bytes", std::uint64_t{0})};
    }
  }
  std::vector<LinkBytes> bytes;
  for (std::size_t i = 0; i < fabric.links.size(); ++i) {
    const bool is_host = i < fabric.hosts.size();
    // The core's end of an uplink receives what the rack sends, as a port does.
    const std::string name = is_host
                                 ? fabric.hosts[i].name
                                 : downlink_of(static_cast<std::uint32_t>(i - fabric.hosts.size()));
    const auto entry = found.find(name);
    if (entry == found.end()) {
      return Status(Code::kInternal, fmt::format("ip says nothing of interface {}", name));
    }
    bytes.push_back(entry->second);
  }
  return bytes;
}

Result<RackSample> take_sample(const Fabric& fabric, const Testbed& testbed,
                               const RackTools& tools) {
  RackSample sample;
  PHUB_ASSIGN_OR_RETURN(const std::string json,
                        tools.ip({"-n", testbed.space(kSwitches), "-s", "-j", "link", "show"}));
  PHUB_ASSIGN_OR_RETURN(sample.links, parse_link_bytes(json, fabric));
  PHUB_ASSIGN_OR_RETURN(std::vector<std::uint32_t> cpus, usable_cpus());
  std::sort(cpus.begin(), cpus.end());
  for (const std::uint32_t cpu : cpus) {
    PHUB_ASSIGN_OR_RETURN(const CpuTime time, cpu_time({&cpu, 1}));
    sample.cpus.push_back(time);
  }
  sample.own_seconds = children_seconds();
  sample.when = std::chrono::steady_clock::now();
  return sample;
}

void RackLoad::add(const RackSample& before, const RackSample& after) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i].up += after.links[i].up - before.links[i].up;
    links_[i].down += after.links[i].down - before.links[i].down;
  }
  cpus_.resize(after.cpus.size());
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    cpus_[i].busy += after.cpus[i].busy - before.cpus[i].busy;
    cpus_[i].total += after.cpus[i].total - before.cpus[i].total;
  }
  seconds_ += std::chrono::duration<double>(after.when - before.when).count();
  own_seconds_ += after.own_seconds - before.own_seconds;
}

double RackLoad::link_busy(const RackLink& link, std::uint64_t bytes) const {
  constexpr double kBytesPerMbit = 1e6 / 8;
  if (seconds_ <= 0) return 0;
  return static_cast<double>(bytes) / (link.mbit * kBytesPerMbit * seconds_);
}

std::vector<double> RackLoad::cpus_busy() const {
  std::vector<double> shares;
  for (const CpuTime& cpu : cpus_) shares.push_back(share(cpu));
  return shares;
}

double RackLoad::machine_busy() const {
  CpuTime sum;
  for (const CpuTime& cpu : cpus_) {
    sum.busy += cpu.busy;
    sum.total += cpu.total;
  }
  return share(sum);
}

double RackLoad::own_busy() const {
  const double capacity = seconds_ * static_cast<double>(cpus_.size());
  return capacity <= 0 ? 0 : own_seconds_ / capacity;
}

}  // namespace phub::bench

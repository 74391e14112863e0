#include "bench/rack/testbed/tools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "bench/processes/child_process.h"

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kTimeout{30};
constexpr int kNetAdmin = 12;  // capabilities(7): bits of CapEff
constexpr int kSysAdmin = 21;

std::uint64_t capabilities() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) return std::stoull(line.substr(7), nullptr, 16);
  }
  return 0;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Ended {
  bool is_right = false;
  std::string output;
  std::string errors;
};

Result<Ended> run_program(std::vector<std::string> command, Places& places) {
  const std::string log = places.fresh_path("tool.log");
  const std::string name = command.front();
  PHUB_ASSIGN_OR_RETURN(
      auto process,
      ChildProcess::start({.name = name, .command = std::move(command), .log_path = log}));
  Ended ended;
  const Deadline deadline = std::chrono::steady_clock::now() + kTimeout;
  for (;;) {
    const Result<std::string> line = process->read_output_line(deadline);
    if (line) {
      ended.output += *line + "\n";
    } else if (line.error().code() == Code::kUnavailable) {
      break;  // the end of its output
    } else {
      return line.error();
    }
  }
  process->stop(0, deadline);
  ended.is_right = process->how_it_ended().ends_with("exit code 0");
  ended.errors = read_all(log);
  return ended;
}

struct Cure {
  std::string_view said;
  std::string_view word;  // of the line that failed; empty: any
  std::string_view cure;
};

constexpr std::array kCures = {
    Cure{"Unknown device type", "bridge", "the kernel has no bridges: modprobe bridge"},
    Cure{"Unknown device type", "veth", "the kernel has no veth pairs: modprobe veth"},
    Cure{"not supported", "bridge", "the kernel has no bridges: modprobe bridge"},
    Cure{"not supported", "veth", "the kernel has no veth pairs: modprobe veth"},
    Cure{"qdisc kind is unknown", "tbf", "the kernel cannot hold rates: modprobe sch_tbf"},
    Cure{"No such file", "tbf", "the kernel cannot hold rates: modprobe sch_tbf"},
    Cure{"not permitted", "",
         "network namespaces need CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root"},
};

}  // namespace

std::string program_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(fmt::format("{}:/usr/sbin:/sbin", path == nullptr ? "" : path));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::string explain(const Batch& batch, std::string_view said) {
  std::string line = batch.lines.front();
  std::string what;
  std::istringstream lines{std::string(said)};
  for (std::string text; std::getline(lines, text);) {
    constexpr std::string_view kFailed = "Command failed ";
    if (!text.starts_with(kFailed)) {
      what += (what.empty() ? "" : "; ") + text;
      continue;
    }
    const std::size_t number = std::strtoul(text.c_str() + text.rfind(':') + 1, nullptr, 10);
    if (number >= 1 && number <= batch.lines.size()) line = batch.lines[number - 1];
  }
  std::string sentence = fmt::format("{} '{}': {}", batch.program, line, what);
  for (const Cure& cure : kCures) {
    if (what.find(cure.said) != std::string::npos && line.find(cure.word) != std::string::npos) {
      return fmt::format("{}; {}", sentence, cure.cure);
    }
  }
  return sentence;
}

Result<RackTools> RackTools::find(Places& places) {
  std::vector<std::string> missing;
  const std::string ip = program_path("ip");
  const std::string tc = program_path("tc");
  const std::string nsenter = program_path("nsenter");
  if (ip.empty() || tc.empty()) missing.emplace_back("ip and tc: apt-get install iproute2");
  if (nsenter.empty()) missing.emplace_back("nsenter: apt-get install util-linux");
  const std::uint64_t rights = capabilities();
  if ((rights >> kNetAdmin & 1U) == 0) missing.emplace_back("CAP_NET_ADMIN: run as root");
  if ((rights >> kSysAdmin & 1U) == 0) missing.emplace_back("CAP_SYS_ADMIN: run as root");
  if (!missing.empty()) {
    return Status(
        Code::kFailedPrecondition,
        fmt::format("racks cannot be built here; what is missing: {}", fmt::join(missing, "; ")));
  }
  return RackTools(places, ip, tc, nsenter);
}

Status RackTools::run(const Batch& batch) const {
  const std::string path = places_->fresh_path("batch");
  std::ofstream file(path);
  for (const std::string& line : batch.lines) file << line << "\n";
  if (!file.flush()) return errno_status(path);
  std::vector<std::string> command = {batch.program == "tc" ? tc_ : ip_};
  if (!batch.space.empty()) command.insert(command.end(), {"-n", batch.space});
  command.insert(command.end(), {"-batch", path});
  PHUB_ASSIGN_OR_RETURN(const Ended ended, run_program(std::move(command), *places_));
  if (ended.is_right) return {};
  return {Code::kFailedPrecondition, explain(batch, ended.errors)};
}

Result<std::string> RackTools::output_of(std::vector<std::string> command,
                                         const std::vector<std::string>& words) const {
  command.insert(command.end(), words.begin(), words.end());
  const std::string whole = fmt::format("{}", fmt::join(command, " "));
  PHUB_ASSIGN_OR_RETURN(Ended ended, run_program(std::move(command), *places_));
  if (ended.is_right) return std::move(ended.output);
  return Status(Code::kUnavailable, fmt::format("{}: {}", whole, ended.errors));
}

Result<std::string> RackTools::ip(const std::vector<std::string>& words) const {
  return output_of({ip_}, words);
}

Result<std::string> RackTools::tc(const std::vector<std::string>& words) const {
  return output_of({tc_}, words);
}

Result<std::string> RackTools::inside(const std::string& space,
                                      const std::vector<std::string>& words) const {
  return output_of(within(space), words);
}

std::vector<std::string> RackTools::within(const std::string& space) const {
  return {nsenter_, "--net=/run/netns/" + space, "--"};
}

}  // namespace phub::bench

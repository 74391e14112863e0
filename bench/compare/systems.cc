#include "bench/compare/systems.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <thread>

namespace phub::bench {
namespace {

using Command = std::vector<std::string>;

Status check_peer(SystemKind kind, const Work& work) {
  if (work.dtype == DataType::kFloat32 && work.rule == RuleKind::kSum) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{} is compared on fp32 sums only: leave --peers out, or use --dtype "
                            "fp32 --rule sum",
                            name_of(kind)));
}

Result<std::string> peer_program(const Places& places, const std::string& name,
                                 std::string_view package) {
  Result<std::string> program = places.program(name);
  if (program) return program;
  return Status(Code::kNotFound,
                fmt::format("{} was not built: apt-get install {}, configure again, build {}", name,
                            package, name));
}

Result<std::vector<Command>> phub_commands(const Work& work, const Places& places,
                                           const PhubServers& servers) {
  PHUB_ASSIGN_OR_RETURN(const std::string self, places.program("phub-bench"));
  const nlohmann::json options = ServedWork{work, servers.addresses()};
  return std::vector<Command>(work.workers, {self, "exchange-worker", options.dump()});
}

Result<std::vector<Command>> gloo_commands(SystemKind kind, const Work& work, Places& places) {
  PHUB_RETURN_IF_ERROR(check_peer(kind, work));
  PHUB_ASSIGN_OR_RETURN(const std::string program,
                        peer_program(places, "phub-bench-gloo", "libgloo-dev"));
  const std::string directory = places.fresh_path("gloo");
  std::error_code error;
  if (!std::filesystem::create_directory(directory, error)) return errno_status(directory);
  const Command command = {program,
                           "--workers",
                           std::to_string(work.workers),
                           "--elements",
                           std::to_string(work.elements),
                           "--directory",
                           directory,
                           "--algorithm",
                           kind == SystemKind::kGlooRing ? "ring" : "halving-doubling"};
  return std::vector<Command>(work.workers, command);
}

Result<std::vector<Command>> openmpi_commands(const Work& work, Places& places) {
  PHUB_RETURN_IF_ERROR(check_peer(SystemKind::kOpenMpi, work));
  PHUB_ASSIGN_OR_RETURN(const std::string program,
                        peer_program(places, "phub-bench-openmpi", "libopenmpi-dev openmpi-bin"));
  // Ranks that outnumber the CPUs must give theirs away while they wait.
  const bool crowded = work.workers > std::thread::hardware_concurrency();
  // Bound to cores, however many share one: a little faster than unbound ranks, at either size.
  Command command = {"mpirun", "--oversubscribe"};
  const auto add = [&command](std::initializer_list<std::string> words) {
    command.insert(command.end(), words);
  };
  add({"-np", std::to_string(work.workers)});
  add({"--map-by", "core", "--bind-to", "core:overload-allowed"});
  add({"--mca", "pml", "ob1"});
  add({"--mca", "btl", work.transport == "shm" ? "self,vader" : "self,tcp"});
  add({"--mca", "btl_tcp_if_include", "lo"});
  add({"--mca", "oob_tcp_if_include", "lo"});
  add({"--mca", "mpi_yield_when_idle", crowded ? "1" : "0"});
  add({"--mca", "orte_tmpdir_base", places.scratch().string()});
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  command.insert(command.end(), {program, "--workers", std::to_string(work.workers), "--elements",
                                 std::to_string(work.elements)});
  return std::vector<Command>{command};
}

Result<std::vector<Command>> roof_commands(const Work& work, const Places& places) {
  if (work.dtype != DataType::kFloat32) {
    return Status(Code::kInvalidArgument, "the roof is defined for --dtype fp32: use --no-roof");
  }
  PHUB_ASSIGN_OR_RETURN(const std::string self, places.program("phub-bench"));
  return std::vector<Command>{{self, "roof-worker", nlohmann::json(work).dump()}};
}

}  // namespace

std::string System::transport() const {
  if (kind == SystemKind::kRoof) return "memory";
  if (kind == SystemKind::kGlooRing || kind == SystemKind::kGlooHalvingDoubling) return "tcp";
  return work.encrypt ? work.transport + ", encrypted" : work.transport;
}

std::string System::label() const {
  return fmt::format("{} {} {} x{}", name_of(kind), transport(), name_of(work.rule), work.workers);
}

Result<std::unique_ptr<System>> start_system(SystemKind kind, const Work& work, Places& places) {
  auto system = std::make_unique<System>();
  system->kind = kind;
  system->work = work;
  Result<std::vector<Command>> commands = std::vector<Command>{};
  switch (kind) {
    case SystemKind::kPhub: {
      PHUB_ASSIGN_OR_RETURN(system->servers, PhubServers::start(work, places));
      commands = phub_commands(work, places, *system->servers);
      break;
    }
    case SystemKind::kGlooRing:
    case SystemKind::kGlooHalvingDoubling:
      commands = gloo_commands(kind, work, places);
      break;
    case SystemKind::kOpenMpi:
      commands = openmpi_commands(work, places);
      break;
    case SystemKind::kRoof:
      commands = roof_commands(work, places);
      break;
  }
  if (!commands) return commands.error();
  PHUB_ASSIGN_OR_RETURN(
      system->group,
      ProcessGroup::start({.name = system->label(),
                           .workers = kind == SystemKind::kRoof ? 1 : work.workers,
                           .commands = *commands,
                           .log_path = places.fresh_path(std::string(name_of(kind)) + ".log"),
                           .interrupt_fd = places.interrupt_fd()}));
  return system;
}

}  // namespace phub::bench

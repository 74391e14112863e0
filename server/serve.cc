#include "server/serve.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log_value.h"
#include "common/memory/fault_guard.h"
#include "proto/config.pb.h"
#include "server/daemon.h"
#include "server/plane/core_cpus.h"
#include "server/process/descriptor_limit.h"
#include "server/process/log.h"
#include "server/process/private_file.h"

namespace phub::server {
namespace {

constexpr std::chrono::milliseconds kDrainSlice{100};
// The log's, listeners', the reaper's, calls', the directory's and the web page's, and those of
// gRPC that are there on every machine.
constexpr std::size_t kOfEveryServer = 25;
// gRPC has two pools that grow with the processors.
constexpr std::size_t kOfEachProcessor = 2;

// gRPC's own messages become ours, at debug level: what matters comes back as a Status.
void log_of_grpc(gpr_log_func_args* arguments) {
  spdlog::debug("event=grpc message={}", log_value(arguments->message));
}

// Blocked in every thread, so that only main sees them, by sigwait.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // What cannot be written is an error where it is written: a peer that is gone, or a file, the log
  // or a job's memory beyond RLIMIT_FSIZE.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  return signals;
}

// The outcome is logged where the files are read.
void reload(Daemon& daemon) {
  spdlog::info("event=signal name=HUP");
  static_cast<void>(daemon.reload());
}

// Returns when a signal asks the process to end.
int serve_until_signal(Daemon& daemon, const sigset_t& signals) {
  int number = 0;
  for (sigwait(&signals, &number); number == SIGHUP; sigwait(&signals, &number)) reload(daemon);
  return number;
}

// Returns when all jobs are over, or at a second signal.
void drain(Daemon& daemon, const sigset_t& signals) {
  daemon.drain();
  const timespec at_once{};
  while (!daemon.wait_until_drained(kDrainSlice)) {
    const int number = sigtimedwait(&signals, nullptr, &at_once);
    if (number == SIGHUP) reload(daemon);
    if (number <= 0 || number == SIGHUP) continue;
    spdlog::warn("event=stopped_at_once reason=\"second signal\"");
    daemon.fail_all("the server was stopped");
    return;
  }
}

// What a server with so many pinned cores needs on a machine with so many processors: its own
// threads and those of its libraries.
std::size_t threads_wanted(std::size_t cores, std::size_t processors) {
  return kOfEveryServer + cores + kOfEachProcessor * processors;
}

// Makes so many threads, which end again before it returns: libraries that cannot make a thread in
// the middle of their start wait for ever, or end the process. Error: kResourceExhausted, with
// figures and the cure. No other thread may be made meanwhile.
Status check_threads(std::size_t count) {
  std::latch end(1);
  std::vector<std::jthread> threads;
  threads.reserve(count);
  bool is_short = false;
  try {
    while (threads.size() < count) threads.emplace_back([&end] { end.wait(); });
  } catch (const std::system_error&) {
    is_short = true;
  }
  const std::size_t made = threads.size();
  end.count_down();
  threads.clear();
  if (!is_short) return {};
  return {Code::kResourceExhausted,
          "this process can make " + std::to_string(made) + " threads, and needs " +
              std::to_string(count) +
              ": raise the limit of processes (`ulimit -u`, TasksMax= of systemd, pids.max of a "
              "container) or of memory (`ulimit -v`, `ulimit -d`)"};
}

std::uint64_t cores_of(const DataPlaneOptions& data_plane) {
  return data_plane.cores == 0 ? default_cores(std::thread::hardware_concurrency())
                               : data_plane.cores;
}

// As many files as may be. Says with figures when a full house would need more.
Status raise_limits(const DataPlaneOptions& data_plane) {
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t limit, raise_descriptor_limit());
  const std::uint64_t cores = cores_of(data_plane);
  const std::uint64_t wanted =
      descriptors_wanted(shares_of(limit), cores * data_plane.connections_per_core);
  if (limit < wanted) {
    spdlog::warn(
        "event=few_descriptors limit={} wanted={} cores={} connections_per_core={} "
        "cure=\"raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)\"",
        limit, wanted, cores, data_plane.connections_per_core);
  }
  return {};
}

Result<std::unique_ptr<Daemon>> make_daemon(const ServerConfig& config,
                                            const transport::EndpointFront& tcp_front,
                                            std::function<std::uint64_t()> log_lines_dropped) {
  DaemonOptions options = options_from(config);
  options.data_plane.tcp_front = tcp_front;
  options.log_lines_dropped = std::move(log_lines_dropped);
  PHUB_RETURN_IF_ERROR(raise_limits(options.data_plane));
  warn_of_others("token_is_open", options.rack_security.token_file);
  warn_of_others("key_is_open", options.rack_security.tls.key);
  return Daemon::create(options);
}

}  // namespace

Status serve(const ServerConfig& config, const transport::EndpointFront& tcp_front) {
  const sigset_t signals = block_signals();  // before the first thread
  PHUB_RETURN_IF_ERROR(check_threads(threads_wanted(cores_of(options_from(config).data_plane),
                                                    std::thread::hardware_concurrency())));
  const Log log(config.log_level(), STDERR_FILENO);
  gpr_set_log_function(log_of_grpc);
  PHUB_RETURN_IF_ERROR(install_fault_guard());
  PHUB_ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon,
                        make_daemon(config, tcp_front, [&log] { return log.lines_dropped(); }));
  const std::string http = daemon->http_address();
  fmt::print("phub-server ready control={} data={} pid={}{}{}\n", daemon->control_address(),
             daemon->tcp_port(), getpid(), http.empty() ? "" : " http=", http);
  std::fflush(stdout);
  spdlog::info("event=ready control={} data_port={} cores={}", daemon->control_address(),
               daemon->tcp_port(), daemon->cores());
  const int signal_number = serve_until_signal(*daemon, signals);
  spdlog::info("event=signal name={}", sigabbrev_np(signal_number));
  drain(*daemon, signals);
  daemon.reset();
  spdlog::info("event=stopped");
  return {};
}

}  // namespace phub::server

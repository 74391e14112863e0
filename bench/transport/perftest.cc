#include "bench/transport/perftest.h"

#include <signal.h>

#include <chrono>
#include <sstream>
#include <vector>

#include "bench/processes/child_process.h"

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kRunTime{120};
constexpr std::chrono::seconds kListenTime{10};
constexpr char kWritesOnTheirWay[] = "128";
constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kMicro = 1e-6;
constexpr std::size_t kBandwidthColumn = 3;  // bytes, iterations, peak, average [MiB/s], rate
constexpr std::size_t kTypicalColumn = 4;    // bytes, iterations, min, max, typical [us], ...

// The columns of the line that starts with the size of the messages.
std::vector<double> columns(const std::string& line) {
  std::vector<double> values;
  std::istringstream words(line);
  for (double value = 0; words >> value;) values.push_back(value);
  return values;
}

}  // namespace

Result<double> run_perftest(const PerftestRun& run, Places& places) {
  const auto command = [&](const std::string& device) {
    // Through a pipe it would tell only at its end that it listens.
    std::vector<std::string> words = {"stdbuf",    "-oL",
                                      run.program, "-F",
                                      "-d",        device,
                                      "-x",        std::to_string(run.gid_index),
                                      "-s",        std::to_string(run.bytes),
                                      "-n",        std::to_string(run.iterations)};
    if (!run.is_latency) words.insert(words.end(), {"-t", kWritesOnTheirWay});
    return words;
  };
  const std::string log = places.fresh_path(run.program + ".log");
  PHUB_ASSIGN_OR_RETURN(const auto server,
                        ChildProcess::start({.name = run.program + " (server)",
                                             .command = command(run.server_device),
                                             .log_path = log}));
  const auto listening = std::chrono::steady_clock::now() + kListenTime;
  for (std::string line; line.find("Waiting for client") == std::string::npos;) {
    PHUB_ASSIGN_OR_RETURN(line, server->read_output_line(listening));
  }
  std::vector<std::string> client_command = command(run.client_device);
  client_command.emplace_back("127.0.0.1");
  PHUB_ASSIGN_OR_RETURN(
      const auto client,
      ChildProcess::start({.name = run.program, .command = client_command, .log_path = log}));
  const auto deadline = std::chrono::steady_clock::now() + kRunTime;
  const std::size_t column = run.is_latency ? kTypicalColumn : kBandwidthColumn;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const std::string line, client->read_output_line(deadline));
    const std::vector<double> values = columns(line);
    if (values.size() > column && values[0] == static_cast<double>(run.bytes)) {
      client->await_end(deadline);
      server->await_end(deadline);
      return values[column] * (run.is_latency ? kMicro : kMebibyte);
    }
  }
}

}  // namespace phub::bench

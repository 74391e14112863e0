#include "server/process/thread_limit.h"

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace phub::server {
namespace {

// The log's, listeners', the reaper's, calls' and the web page's, and those of gRPC that are there
// on every machine.
constexpr std::size_t kOfEveryServer = 24;
// gRPC has two pools that grow with the processors.
constexpr std::size_t kOfEachProcessor = 2;

}  // namespace

std::size_t threads_wanted(std::size_t cores, std::size_t processors) {
  return kOfEveryServer + cores + kOfEachProcessor * processors;
}

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

}  // namespace phub::server

#include "bench/compare/interleave.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <vector>

namespace phub::bench {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

// Seconds of each iteration from every worker's "done t0 t1 ...". Without a common clock each
// worker's first stamp is taken for the same moment: by then all have ended one exchange.
Result<std::vector<double>> seconds_of(const std::vector<std::string>& replies, unsigned iterations,
                                       bool has_one_clock) {
  std::vector<std::int64_t> ends(iterations + 1, 0);
  for (const std::string& reply : replies) {
    std::istringstream words(reply);
    std::string verb;
    words >> verb;
    std::int64_t first = 0;
    for (std::int64_t& end : ends) {
      std::int64_t stamp = 0;
      words >> stamp;
      if (!has_one_clock && &end == &ends.front()) first = stamp;
      end = std::max(end, stamp - first);
    }
    if (!words || verb != "done") {
      return Status(Code::kInternal, fmt::format("odd reply '{:.40}'", reply));
    }
  }
  std::vector<double> seconds;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    seconds.push_back(static_cast<double>(ends[i] - ends[i - 1]) / kNanosecondsPerSecond);
  }
  return seconds;
}

}  // namespace

Status verify(System& system, std::uint32_t round, std::chrono::milliseconds timeout) {
  PHUB_ASSIGN_OR_RETURN(const auto replies,
                        system.group->ask(fmt::format("verify {}", round), timeout));
  for (std::size_t worker = 0; worker < replies.size(); ++worker) {
    if (replies[worker].starts_with("wrong ")) {
      system.failure = fmt::format("{} worker {}: {}", system.label(), worker, replies[worker]);
      return {};
    }
  }
  for (const std::string& reply : replies) {
    if (reply != replies.front()) {
      system.failure = system.label() + ": the workers' results differ";
    }
  }
  system.checksum = replies.front().substr(replies.front().find(' ') + 1);
  return {};
}

Status run_block(System& system, const BlockPlan& plan, std::chrono::milliseconds timeout) {
  const std::string command = fmt::format("run {} {}", plan.warm_up, plan.iterations);
  PHUB_ASSIGN_OR_RETURN(const auto replies, system.group->ask(command, timeout));
  PHUB_ASSIGN_OR_RETURN(auto seconds, seconds_of(replies, plan.iterations, system.has_one_clock));
  system.blocks.push_back(std::move(seconds));
  return {};
}

Progress::Progress(std::size_t steps) : steps_(steps), shown_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::step(const std::string& what) {
  ++done_;
  if (shown_) fmt::print(stderr, "\r\033[K[{}/{}] {}", done_, steps_, what);
}

Status run_blocks(std::span<const std::unique_ptr<System>> systems, const BlockPlan& plan,
                  std::chrono::milliseconds timeout) {
  Progress progress(systems.size() * (plan.blocks + 2));
  for (const auto& system : systems) {
    progress.step("verifying " + system->label());
    PHUB_RETURN_IF_ERROR(verify(*system, 1, timeout));
  }
  for (unsigned block = 0; block < plan.blocks; ++block) {
    for (const auto& system : systems) {
      progress.step(fmt::format("block {} of {}: {}", block + 1, plan.blocks, system->label()));
      PHUB_RETURN_IF_ERROR(run_block(*system, plan, timeout));
    }
  }
  for (const auto& system : systems) {
    progress.step("verifying " + system->label());
    PHUB_RETURN_IF_ERROR(verify(*system, 2, timeout));
  }
  return {};
}

}  // namespace phub::bench

#include "bench/compare/interleave.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <vector>

namespace phub::bench {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
constexpr int kBarWidth = 20;

int twentieths(double share) { return static_cast<int>(kBarWidth * std::clamp(share, 0.0, 1.0)); }

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

std::string progress_text(double share, std::chrono::nanoseconds elapsed, const std::string& what) {
  if (share < 0.0) return what;
  const int full = twentieths(share);
  const std::string bar = fmt::format("[{:#<{}}{:-<{}}] {:3.0f} %  {}", "", full, "",
                                      kBarWidth - full, 100 * share, what);
  if (share <= 0.0) return bar;
  const double spent = static_cast<double>(elapsed.count()) / kNanosecondsPerSecond;
  const auto left = static_cast<std::uint64_t>(std::ceil(spent * (1.0 - share) / share));
  return fmt::format("{}, about {}:{:02} left", bar, left / 60, left % 60);
}

Progress::Progress(std::size_t steps, Elsewhere elsewhere)
    : steps_(steps),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      has_lines_(elsewhere == Elsewhere::kLines) {}

Progress::~Progress() {
  if (is_terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::step(const std::string& what) {
  show(static_cast<double>(begun_) / static_cast<double>(steps_), what);
  ++begun_;
}

void Progress::show(double share, const std::string& what) {
  const std::string text = progress_text(share, std::chrono::steady_clock::now() - begin_, what);
  if (is_terminal_) {
    fmt::print(stderr, "\r\033[K{}", text);
    return;
  }
  const bool is_new = share < 0.0 ? what != told_what_ : twentieths(share) > told_;
  if (!has_lines_ || !is_new) return;
  told_ = share < 0.0 ? told_ : twentieths(share);
  told_what_ = what;
  fmt::print(stderr, "phub-bench: {}\n", text);
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

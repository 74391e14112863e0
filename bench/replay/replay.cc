#include "bench/replay/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>

#include "bench/compare/systems.h"
#include "bench/replay/worker.h"
#include "common/text/late_notice.h"
#include "common/text/table.h"

namespace phub::bench::replay {
namespace {

constexpr std::chrono::milliseconds kPatience{500};  // with others' servers, before a word about it
constexpr std::chrono::seconds kStartTimeout{60};    // of all workers

Result<std::vector<std::string>> worker_command(const ReplayPlan& plan, const ServedReplay& replay,
                                                Places& places) {
  PHUB_ASSIGN_OR_RETURN(const std::string self, places.program("phub-bench"));
  std::vector<std::string> command = {self};
  const std::string path = places.fresh_path("replay.json");
  std::ofstream file(path);
  file << text_of(plan);
  if (!file.flush()) return errno_status(path);
  for (const std::string& word : worker_words(replay)) command.push_back(word);
  command.push_back(path);
  return command;
}

// `addresses`: of servers that are not ours, which may not be there.
Result<std::unique_ptr<ProcessGroup>> start_workers(const ProcessGroup::Options& group,
                                                    const std::vector<std::string>& addresses) {
  if (addresses.empty()) return ProcessGroup::start(group);
  const std::string servers = fmt::format("{}", fmt::join(addresses, ", "));
  const LateNotice notice(
      kPatience, fmt::format("phub-bench: waiting for a phub-server at {}, for {} s at most",
                             servers, group.start_timeout.count()));
  auto started = ProcessGroup::start(group);
  if (started || started.error().code() != Code::kDeadlineExceeded) return started;
  return Status(Code::kDeadlineExceeded,
                fmt::format("{}; is a phub-server running at {} (--address)?",
                            started.error().message(), servers));
}

Result<std::unique_ptr<System>> start(const ReplayOptions& options, const ReplayPlan& plan,
                                      Places& places) {
  auto system = std::make_unique<System>();
  system->work = options.work;
  system->work.elements = plan.elements();
  ServedWork served{system->work, options.addresses};
  if (served.addresses.empty()) {
    PHUB_ASSIGN_OR_RETURN(system->servers, PhubServers::start(system->work, places));
    served.addresses = system->servers->addresses();
  } else {
    system->work.servers = static_cast<std::uint32_t>(served.addresses.size());
  }
  PHUB_ASSIGN_OR_RETURN(const auto command, worker_command(plan, {served, options.job}, places));
  PHUB_ASSIGN_OR_RETURN(system->group,
                        start_workers({.name = system->label(),
                                       .workers = system->work.workers,
                                       .commands = {system->work.workers, command},
                                       .log_path = places.fresh_path("replay.log"),
                                       .start_timeout = std::min(kStartTimeout, options.timeout),
                                       .interrupt_fd = places.interrupt_fd()},
                                      options.addresses));
  return system;
}

}  // namespace

Status check_length(const ReplayPlan& plan, const BlockPlan& blocks, std::chrono::seconds timeout,
                    const std::string& name) {
  const double seconds = plan.compute() * (blocks.iterations + blocks.warm_up);
  if (seconds < static_cast<double>(timeout.count())) return {};
  return {Code::kInvalidArgument,
          fmt::format("{}: the {} iterations of a block compute for {} and would never end within "
                      "{} s; give it more, or make fewer iterations",
                      name, blocks.iterations + blocks.warm_up, human_seconds(seconds),
                      timeout.count())};
}

Status run_replay(const ReplayOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const ReplayPlan plan, plan_of(options.source));
  PHUB_RETURN_IF_ERROR(check_length(plan, options.plan, options.timeout, "--timeout-s"));
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  std::vector<std::unique_ptr<System>> systems;
  PHUB_ASSIGN_OR_RETURN(systems.emplace_back(), start(options, plan, *places));
  PHUB_RETURN_IF_ERROR(run_blocks(systems, options.plan, options.timeout));
  System& system = *systems.front();
  system.group->stop();
  const Outcome outcome{.plan = plan,
                        .work = system.work,
                        .rates = options.rates,
                        .blocks = system.blocks,
                        .checksum = system.checksum,
                        .failure = system.failure};
  fmt::print("{}", options.json ? json_of(outcome) + "\n" : text_of(outcome));
  return outcome.failure.empty() ? Status() : Status(Code::kDataLoss, outcome.failure);
}

}  // namespace phub::bench::replay

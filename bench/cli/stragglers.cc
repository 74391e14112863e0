#include "bench/stragglers/stragglers.h"

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"

namespace phub::bench {
namespace {

using stragglers::StragglersOptions;

constexpr double kPerMilli = 1e-3;
constexpr double kMostMilliseconds = 60'000.0;
constexpr std::uint64_t kElements = 100'000;
constexpr std::uint32_t kWorkers = 8;

// As they were typed.
struct StragglersWords {
  StragglersOptions options;
  double compute_ms = 20.0;
  double sleep_ms = 100.0;
};

// The error is of options that do not go together.
Result<StragglersOptions> understood(const StragglersWords& words) {
  StragglersOptions options = words.options;
  if (options.work.workers < 2) {
    return Status(Code::kInvalidArgument, "--workers: 1 has nobody to wait for; give 2 or more");
  }
  if (options.backups >= options.work.workers) {
    return Status(Code::kInvalidArgument, "--backups: " + std::to_string(options.backups) + " of " +
                                              std::to_string(options.work.workers) +
                                              " workers; give fewer than workers");
  }
  options.compute = kPerMilli * words.compute_ms;
  options.slowness.sleep = kPerMilli * words.sleep_ms;
  return options;
}

template <std::size_t kCount>
CLI::Validator one_of(const std::string_view (&words)[kCount], std::size_t first = 0) {
  return CLI::IsMember(std::vector<std::string>(std::begin(words) + first, std::end(words)));
}

void add_slowness(CLI::App& command, StragglersWords& words) {
  stragglers::Slowness& slowness = words.options.slowness;
  command
      .add_option(
          "--slow", slowness.kind,
          "slow: the last worker takes --factor times as long always; moving: in each round "
          "one of all, by chance; sleep: the last sleeps for --sleep-ms in a share of its "
          "rounds")
      ->check(one_of(stragglers::kSlownessKinds, 1));
  command.add_option("--factor", slowness.factor, "how many times as long a slow worker computes")
      ->check(number_range(1.0, 1000.0));
  command.add_option("--chance", slowness.chance, "share of its rounds in which a worker sleeps")
      ->check(number_range(0.0, 1.0));
  command.add_option("--sleep-ms", words.sleep_ms, "for how long it sleeps then")
      ->check(number_range(0.0, kMostMilliseconds));
}

void add_policies(CLI::App& command, StragglersOptions& options) {
  command
      .add_option("--policies", options.policies,
                  "all: a round has every worker's push (always measured); backup: all but "
                  "--backups, late ones dropped; ssp: asynchronous within --staleness; async")
      ->delimiter(',')
      ->check(one_of(stragglers::kPolicyWords));
  command.add_option("--backups", options.backups, "workers that a round does not wait for")
      ->check(CLI::Range(1U, 1024U));
  command.add_option("--grace-ms", options.grace_ms, "how long it waits for them all the same")
      ->check(CLI::Range(0U, kGraceMsMax));
  command.add_option("--staleness", options.staleness, "rounds that a worker may be ahead by")
      ->check(CLI::Range(0U, 1'000'000U));
}

}  // namespace

void add_stragglers(CLI::App& app, Run& run) {
  auto words = std::make_shared<StragglersWords>();
  StragglersOptions& options = words->options;
  options.work.workers = kWorkers;
  options.work.server_cores = 1;
  options.work.elements = kElements;
  CLI::App* command = app.add_subcommand(
      "stragglers", "what one slow worker costs the others, by policy of rounds");
  command->footer(
      "Workers are processes that sleep as long as they would compute, push their keys and wait\n"
      "for them; the servers are real. Policies take turns, each in a job of its own.\n\n"
      "  phub-bench stragglers --workers 8 --slow sleep --chance 0.2 --sleep-ms 100\n"
      "  phub-bench stragglers --workers 8 --slow moving --factor 2 --policies ssp --staleness 3");
  command->add_option("--transport", options.work.transport, "shm or tcp")
      ->check(CLI::IsMember({"shm", "tcp"}));
  command->add_option("--workers,-N", options.work.workers, "worker processes")
      ->check(worker_range());
  command->add_option("--elements,-E", options.work.elements, "elements of one worker's push")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32U));
  add_dtype(*command, options.work.dtype, "element type on the wire");
  command->add_option("--compute-ms", words->compute_ms, "of each round")
      ->check(number_range(0.0, kMostMilliseconds));
  command->add_option("--seconds", options.seconds, "of each policy in each block")
      ->check(number_range(0.1, 3600.0));
  command->add_option("--blocks,-B", options.blocks, "repetitions; policies take turns")
      ->check(CLI::Range(1U, 1000U));
  add_slowness(*command, *words);
  add_policies(*command, options);
  command->add_flag("--json", options.json, "one JSON object a line instead of a table");
  runs(*command, run, [words]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const StragglersOptions whole, understood(*words));
    return stragglers::run_stragglers(whole);
  });
}

}  // namespace phub::bench

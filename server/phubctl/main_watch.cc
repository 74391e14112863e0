// `phubctl top`, `job explain` and `trace`.
#include <memory>

#include "server/phubctl/main.h"

namespace phub::phubctl {
namespace {

constexpr std::uint32_t kRoundsMax = 256;  // that a core's log holds

void declare_top(CLI::App& app, Command& command) {
  CLI::App& sub = add_subcommand(
      app, "top", "Cores and jobs with live rates",
      "Examples:\n"
      "  phubctl top                     until Ctrl-C\n"
      "  phubctl top --once              one look (as when the output is no terminal)\n"
      "  phubctl --json top              the same for programs\n\n"
      "INPUT is the share of a step in which the slowest worker waits for its samples.\n"
      "On a narrow terminal the least important columns are left out, and the last line\n"
      "names them.");
  auto options = std::make_shared<TopOptions>();
  sub.add_flag("--once", options->once, "One look");
  sub.add_option("--interval-ms", options->interval_ms, "Between two looks; rates are of this time")
      ->check(CLI::Range(100U, 60'000U))
      ->capture_default_str();
  run_with(sub, command, options, top);
}

void declare_explain(CLI::App& jobs, Command& command) {
  CLI::App& sub = add_subcommand(
      jobs, "explain", "Why is a step of the job slow, or why has it failed?",
      "Examples:\n"
      "  phubctl job explain mnist\n"
      "  phubctl --json job explain mnist\n"
      "  phubctl job explain mnist --also 10.1.0.7:7077     of a job over racks\n\n"
      "Names the worker whose input the others wait for, with what to do about it;\n"
      "the straggler, saturated cores and who else uses them, transports that cost,\n"
      "the queue of the fair share, other racks; or says that the workers compute and\n"
      "the server is not to blame. A table has what each worker says of its last\n"
      "steps: how long it waits for input and for the exchange, and how long it\n"
      "computes. Of a failed job it says why, what to look at and how to go on, with\n"
      "the newest snapshot on this server.");
  auto options = std::make_shared<ExplainOptions>();
  sub.add_option("name", options->name, "Name of the job")->required();
  sub.add_option("--also", options->also,
                 "Servers of the job's other racks: whether their workers are late or the link is "
                 "slow")
      ->type_name("HOST:PORT");
  run_with(sub, command, options, explain_job);
}

void declare_trace(CLI::App& app, Command& command) {
  CLI::App& sub = add_subcommand(
      app, "trace", "The last rounds of a job as a Chrome trace",
      "Examples:\n"
      "  phubctl trace mnist --rounds 50 --output mnist.json\n"
      "  phubctl trace mnist > mnist.json\n\n"
      "Open the file with https://ui.perfetto.dev (it stays in the browser) or chrome://tracing.");
  auto options = std::make_shared<TraceOptions>();
  sub.add_option("name", options->name, "Name of a running job")->required();
  sub.add_option("--rounds", options->rounds, "The last so many")
      ->check(CLI::Range(1U, kRoundsMax))
      ->capture_default_str();
  sub.add_option("--output", options->output, "File to write; default: standard output")
      ->type_name("FILE");
  run_with(sub, command, options, trace_job);
}

}  // namespace

void declare_watch(CLI::App& app, CLI::App& jobs, Command& command) {
  declare_top(app, command);
  declare_explain(jobs, command);
  declare_trace(app, command);
}

}  // namespace phub::phubctl

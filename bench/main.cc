// phub-bench: measures PHub, its peers, and what the machine allows.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "bench/cli/cli.h"
#include "common/base/version.h"
#include "common/text/error_line.h"
#include "common/text/help_format.h"
#include "common/text/usage.h"

namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

int say(const phub::Status& error, bool as_json) {
  std::fprintf(stderr, "%s\n", phub::error_line("phub-bench", error, as_json).c_str());
  // Not found: a file that was named.
  const bool is_bad_input =
      error.code() == phub::Code::kInvalidArgument || error.code() == phub::Code::kNotFound;
  return is_bad_input ? kBadInput : kFailed;
}

int run_command_line(int argc, char** argv, bool as_json) {
  using namespace phub::bench;
  CLI::App app(
      "phub-bench measures the exchange of gradients: PHub beside Gloo, Open MPI and what memory\n"
      "allows, all in one run and in turns, because a machine's speed drifts. Every sum is "
      "checked\n"
      "element by element. Exit code: 0; 1 after a wrong sum or a failure; 2 for bad input.",
      "phub-bench");
  app.formatter(phub::help_format());
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", phub::version_of("phub-bench"));
  app.footer(
      "Start with:\n"
      "  phub-bench exchange --transport shm --workers 4 --peers gloo,openmpi\n"
      "and see 'phub-bench SUBCOMMAND --help'.");
  Run run;
  add_exchange(app, run);
  add_roof(app, run);
  add_chunks(app, run);
  add_aggregate(app, run);
  add_select(app, run);
  add_bars(app, run);
  add_transport(app, run);
  add_tenants(app, run);
  add_stragglers(app, run);
  add_dollars(app, run);
  add_rack(app, run);
  add_report(app, run);
  add_simulate(app, run);
  add_replay(app, run);
  add_workers(app, run);
  phub::refuse_negative_counts(app);
  app.failure_message(phub::usage_failure);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (as_json && error.get_exit_code() != 0) {
      return say({phub::Code::kInvalidArgument, phub::usage_error(app, error)}, true);
    }
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
  const phub::Status ended = run();
  return ended.ok() ? 0 : say(ended, as_json);
}

}  // namespace

int main(int argc, char** argv) {
  const bool as_json = phub::asks_for_json(argc, argv);
  try {
    return run_command_line(argc, argv, as_json);
  } catch (const std::exception& error) {  // a library's; we throw nothing
    return say({phub::Code::kInternal, error.what()}, as_json);
  }
}

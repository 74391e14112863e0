// phub-worker: trains a network, alone or with others through PHub servers, and looks at networks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iterator>

#include "common/base/version.h"
#include "common/text/error_line.h"
#include "common/text/help_format.h"
#include "common/text/usage.h"
#include "worker/cli/commands.h"

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // training does not end with who reads its output
  CLI::App app("Trains convolutional networks, exchanging gradients through PHub servers.",
               "phub-worker");
  app.formatter(phub::help_format());
  app.require_subcommand(1);
  app.set_version_flag("--version", phub::version_of("phub-worker"));
  app.footer(phub::kTrainExamples);
  const phub::Command commands[] = {
      phub::add_train_command(app),   phub::add_eval_command(app),  phub::add_predict_command(app),
      phub::add_profile_command(app), phub::add_model_command(app), phub::add_bench_command(app),
      phub::add_tune_command(app),    phub::add_data_command(app),  phub::add_cache_command(app)};
  const bool as_json = phub::asks_for_json(argc, argv);
  phub::refuse_negative_counts(app);
  app.failure_message(phub::usage_failure);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (as_json && error.get_exit_code() != 0) {
      return phub::say(phub::fail({phub::Code::kInvalidArgument, phub::usage_error(app, error)}),
                       true);
    }
    return app.exit(error) == 0 ? 0 : phub::kExitUsage;
  }
  const auto* const asked =
      std::find_if(std::begin(commands), std::end(commands),
                   [](const phub::Command& command) { return command.app->parsed(); });
  return phub::say(asked->run(), as_json);
}

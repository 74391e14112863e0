// phub-worker: trains a network, alone or with others through PHub servers, and looks at networks.
#include <CLI/CLI.hpp>
#include <csignal>
#include <utility>

#include "common/base/version.h"
#include "common/text/error_line.h"
#include "common/text/usage.h"
#include "worker/cli/bench.h"
#include "worker/cli/eval.h"
#include "worker/cli/model.h"
#include "worker/cli/options/exit_status.h"
#include "worker/cli/profile.h"
#include "worker/cli/train.h"
#include "worker/cli/tune.h"

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // training does not end with who reads its output
  CLI::App app("Trains convolutional networks, exchanging gradients through PHub servers.",
               "phub-worker");
  app.require_subcommand(1);
  app.set_version_flag("--version", phub::version_of("phub-worker"));
  app.footer(phub::kTrainExamples);
  phub::TrainArguments train_arguments;
  phub::EvalArguments eval_arguments;
  phub::ProfileArguments profile_arguments;
  phub::ModelArguments model_arguments;
  phub::BenchArguments bench_arguments;
  phub::TuneArguments tune_arguments;
  phub::add_train_command(app, train_arguments);
  const CLI::App* eval = phub::add_eval_command(app, eval_arguments);
  const CLI::App* profile = phub::add_profile_command(app, profile_arguments);
  const CLI::App* model = phub::add_model_command(app, model_arguments);
  const CLI::App* bench = phub::add_bench_command(app, bench_arguments);
  const CLI::App* tune = phub::add_tune_command(app, tune_arguments);
  const bool as_json = phub::asks_for_json(argc, argv);
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
  const auto run = [&]() -> phub::Ending {
    if (eval->parsed()) return phub::eval_command(std::move(eval_arguments));
    if (profile->parsed()) return phub::profile_command(profile_arguments);
    if (model->parsed()) return phub::model_command(model_arguments);
    if (bench->parsed()) return phub::bench_command(bench_arguments);
    if (tune->parsed()) return phub::tune_command(tune_arguments);
    return phub::train_command(train_arguments);
  };
  return phub::say(run(), as_json);
}

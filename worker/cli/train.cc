#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "worker/cli/commands.h"
#include "worker/cli/options/encoding_choice.h"
#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/run_arguments.h"
#include "worker/cli/options/run_options.h"
#include "worker/cli/options/shares.h"
#include "worker/cli/recovery.h"
#include "worker/cli/spread_listener.h"
#include "worker/cli/stop_signal.h"
#include "worker/train/session.h"

namespace phub {

const char* const kTrainExamples = R"(
Examples:
  Train alone, in this process:
    phub-worker train configs/mnist.textproto --local

  Train with two workers through a server on this machine:
    phub-server &
    phub-worker train configs/mnist.textproto --server 127.0.0.1:7077 --workers 2 &
    phub-worker train configs/mnist.textproto --server 127.0.0.1:7077 --workers 2

Worker 0 prints a line for each epoch: the loss and the accuracy over its own training images, the
accuracy on the test images, the images per second of all workers that take part, and the time it
spent waiting for the exchange. A line names each worker or rack that is lost and that the job goes
on without. Without worker 0's rack, the other rack's lowest worker prints and saves.

The first SIGINT or SIGTERM of any worker ends the training: all workers stop after the same step,
worker 0 writes the checkpoint, and all leave the job. So does a server that is stopped or drained.
The last line then says after which step, and why. A second signal ends the process.

With --recover (train.recover_s) a loss does not end the training. The servers and workers that are
missing are to be started again, with the same commands, and all go on from the last checkpoint. A
server that was stopped or drained is waited for as well. SIGTERM to a worker ends the training.

Exit status: 0 trained, or stopped as asked with the checkpoint written; 1 failed, or the checkpoint
of an asked stop could not be written; 2 wrong usage or configuration.)";

namespace {

struct TrainArguments {
  RunArguments run;
  bool check_only = false;
  bool verbose = false;
};

// One session, or with train.recover_s as many as it takes.
Result<train::SessionResult> train_to_the_end(const WorkerConfig& config,
                                              train::SessionOptions& options, PeerAddress listens,
                                              const StopSignal& stop) {
  Recovery recovery(config, options.note, stop.token());
  const auto make =
      [&](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<train::GradientExchange>> {
    PHUB_RETURN_IF_ERROR(recovery.restore());
    PHUB_ASSIGN_OR_RETURN(auto exchange,
                          make_exchange(config, keys, stop.token(), {listens.host, listens.port}));
    recovery.joined(exchange->facts().steps_before);
    return exchange;
  };
  options.stepped = [&] { recovery.stepped(); };
  while (true) {
    const auto session = [&]() -> Result<train::SessionResult> {
      PHUB_RETURN_IF_ERROR(recovery.prepare(options));
      return train::run_session(options, make, [&] { return stop.requested(); });
    };
    auto result = session();
    if (result && !recovery.goes_on(*result)) return result;
    Status error = result ? Status() : result.error();
    if (!result && !recovery.goes_on(error)) return error;
    PHUB_ASSIGN_OR_RETURN(listens, listen_for_peers(config, options));
  }
}

Ending train_command(const TrainArguments& arguments) {
  auto config = load_run(arguments.run);
  if (!config) return fail(config.error(), kExitUsage);
  set_up_logging(config->log_level());
  auto network = network_of(config->model());
  if (!network) return fail(network.error().with_context("model"), kExitUsage);
  if (arguments.check_only) {
    fmt::print("phub-worker: the configuration is good\n");
    return {};
  }
  StopSignal stop;
  train::SessionOptions options = session_of(*config, std::move(*network), arguments.verbose);
  if (options.executor.backend == train::BackendKind::kCuda) {
    options.executor.cuda = cuda_of(*config, arguments.run.cuda);
  }
  options.executor.kernels = kernel_options(arguments.run.kernels, nullptr);
  options.note = print_note;
  const auto listens = listen_for_peers(*config, options);
  if (!listens) return fail(listens.error(), kExitUsage);
  Status agreed = agree_on_shares(*config, options, stop.token());
  if (agreed.ok()) agreed = agree_on_encoding(*config, options, stop.token());
  if (!agreed.ok() && stop.requested()) {
    fmt::print(stderr, "phub-worker: stopped as asked; {}\n", agreed.message());
    return {};
  }
  if (!agreed.ok()) return fail(agreed);
  const auto result = train_to_the_end(*config, options, *listens, stop);
  if (!result) {
    // Asked to stop before the job has started, or while it failed.
    if (stop.requested() && result.error().code() != Code::kDataLoss) {
      fmt::print(stderr, "phub-worker: stopped as asked; {}\n", result.error().message());
      return {};
    }
    const bool usage = result.error().code() == Code::kInvalidArgument;
    return fail(result.error(), usage ? kExitUsage : kExitFailed);
  }
  if (result->interrupted && !result->ending.empty()) {
    fmt::print("stopped as asked after step {}: {}\n", result->next_step, result->ending);
  } else if (result->test_accuracy >= 0.0) {
    fmt::print("test accuracy {:.2f} % after {} steps, {:.1f} s of training\n",
               100.0 * result->test_accuracy, result->next_step, result->train_seconds);
  }
  return {};
}

}  // namespace

Command add_train_command(CLI::App& app) {
  const auto kept = std::make_shared<TrainArguments>();
  TrainArguments& arguments = *kept;
  CLI::App* train = app.add_subcommand("train", "Train the network that a configuration describes");
  train->footer(kTrainExamples);
  train
      ->add_option("CONFIG", arguments.run.config_path,
                   "What to train: see configs/ and proto/config/*.proto")
      ->required()
      ->type_name("");
  add_exchange_options(*train, arguments.run);
  add_compute_options(*train, arguments.run);
  add_training_options(*train, arguments.run);
  train->add_flag("--check", arguments.check_only,
                  "Read the configuration and the model, say what is wrong, and end");
  train->add_flag("--verbose", arguments.verbose, "Print progress also if this is not worker 0");
  return {train, [kept] { return train_command(*kept); }};
}

}  // namespace phub

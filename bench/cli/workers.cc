#include <memory>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"
#include "bench/exchange/worker.h"
#include "bench/memory/roof_task.h"

namespace phub::bench {
namespace {

void add_hello(CLI::App& command, WorkerHello& hello) {
  command.group("");  // hidden
  command.add_option("--control", hello.control)->required();
  command.add_option("--index", hello.index)->required();
}

void add_exchange_worker(CLI::App& app, Run& run) {
  struct Words {
    ExchangeWorkerOptions options;
    WorkWords work;
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = app.add_subcommand("exchange-worker");
  add_hello(*command, words->options.hello);
  command->add_option("--servers", words->options.servers)->delimiter(',')->required();
  command->add_option("--job", words->options.job)->required();
  command->add_option("--workers", words->options.work.workers)->required();
  command->add_option("--transport", words->options.work.transport)->required();
  command->add_option("--congestion", words->options.work.congestion)->required();
  command->add_option("--elements", words->options.work.elements)->required();
  command->add_option("--keys", words->options.work.keys)->required();
  command->add_option("--dtype", words->work.dtype)->required();
  command->add_option("--rule", words->work.rule)->required();
  command->add_option("--order", words->work.order)->required();
  command->add_option("--chunk-kib", words->options.work.chunk_kib)->required();
  command->add_flag("--vote", words->options.work.vote);
  command->callback([words, &run] {
    run = [words] {
      ExchangeWorkerOptions options = words->options;
      options.work = understood(options.work, words->work);
      return run_exchange_worker(options);
    };
  });
}

void add_roof_worker(CLI::App& app, Run& run) {
  struct Words {
    WorkerHello hello;
    Roof::Options options;
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = app.add_subcommand("roof-worker");
  add_hello(*command, words->hello);
  command->add_option("--workers", words->options.workers)->required();
  command->add_option("--elements", words->options.elements)->required();
  command->add_option("--threads", words->options.threads)->required();
  command->add_option("--state", words->options.state)->required();
  command->callback([words, &run] {
    run = [words] {
      const RoofPass pass = words->options.state ? RoofPass::kUpdate : RoofPass::kSum;
      return run_roof_worker(words->hello, words->options, pass);
    };
  });
}

}  // namespace

void add_workers(CLI::App& app, Run& run) {
  add_exchange_worker(app, run);
  add_roof_worker(app, run);
}

}  // namespace phub::bench

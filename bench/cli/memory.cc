#include <algorithm>
#include <memory>
#include <thread>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"
#include "bench/compare/commands.h"

namespace phub::bench {
namespace {

void add_threads(CLI::App& command, unsigned& threads) {
  threads = std::min(threads, std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("--threads,-T", threads, "threads, each pinned to a CPU of its own")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

void add_roof(CLI::App& app, Run& run) {
  struct Words {
    RoofOptions options;
    PlanWords plan;
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = app.add_subcommand("roof", "what memory allows for (workers + 2) streams");
  command->footer(
      "Sums one array for each worker into one output by the simplest loop, in one process: what "
      "no\n"
      "exchange of fp32 gradients through memory can beat on this machine.\n\n"
      "  phub-bench roof --workers 4 --state 1");
  command->add_option("--workers,-N", words->options.workers, "source arrays")
      ->check(worker_range())
      ->capture_default_str();
  add_size(*command, words->options.elements, nullptr);
  add_threads(*command, words->options.threads);
  command
      ->add_option("--state", words->options.state,
                   "1: also time an update with an optimizer state (Nesterov), a stream more in "
                   "each direction")
      ->capture_default_str();
  add_plan(*command, words->plan);
  command->add_flag("--json", words->options.json, "one JSON object a line instead of a table");
  command->callback([words, &run] {
    run = [words] {
      RoofOptions options = words->options;
      options.plan = understood(words->plan);
      return run_roof(options);
    };
  });
}

void add_aggregate(CLI::App& app, Run& run) {
  struct Words {
    AggregateOptions options;
    PlanWords plan;
    std::string rule = "nesterov";
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = app.add_subcommand(
      "aggregate", "compare tall and wide, fused and unfused aggregation in one process");
  command->footer(
      "tall: each thread owns chunks. wide: all threads share one tensor after another. fused: "
      "sum\n"
      "and rule in one pass. unfused: the first gradient is copied, the others are added one by "
      "one,\n"
      "the optimizer comes last.\n\n"
      "  phub-bench aggregate --workers 4 --rule nesterov");
  command->add_option("--workers,-N", words->options.workers, "gradients to aggregate")
      ->check(worker_range())
      ->capture_default_str();
  add_size(*command, words->options.elements, &words->options.keys);
  command->add_option("--rule", words->rule, "sum, mean, sgd, momentum, nesterov")
      ->check(rule_words())
      ->capture_default_str();
  add_threads(*command, words->options.threads);
  command->add_option("--chunk-kib", words->options.chunk_kib, "size of a chunk in KiB")
      ->check(CLI::Range(1U, 16U * 1024U))
      ->capture_default_str();
  add_plan(*command, words->plan);
  command->add_flag("--json", words->options.json, "one JSON object a line instead of a table");
  command->callback([words, &run] {
    run = [words] {
      AggregateOptions options = words->options;
      options.rule = parse_rule_kind(words->rule).value_or(options.rule);
      options.plan = understood(words->plan);
      return run_aggregate(options);
    };
  });
}

}  // namespace phub::bench

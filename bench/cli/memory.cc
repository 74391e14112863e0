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
      ->check(CLI::PositiveNumber);
}

}  // namespace

void add_roof(CLI::App& app, Run& run) {
  auto options = std::make_shared<RoofOptions>();
  CLI::App* command = app.add_subcommand("roof", "what memory allows for (workers + 2) streams");
  command->footer(
      "Sums one array for each worker into one output by the simplest loop, in one process: what "
      "no\n"
      "exchange of fp32 gradients through memory can beat on this machine.\n\n"
      "  phub-bench roof --workers 4 --state 1");
  command->add_option("--workers,-N", options->workers, "source arrays")->check(worker_range());
  add_size(*command, options->elements, nullptr);
  add_threads(*command, options->threads);
  command
      ->add_option(
          "--state", options->states,
          "1: also time an update with an optimizer state (Nesterov), a stream more in each "
          "direction; 2: and one with two (Adam)")
      ->check(CLI::Range(0U, 2U));
  add_plan(*command, options->plan);
  command->add_flag("--json", options->json, "one JSON object a line instead of a table");
  runs(*command, run, [options] {
    options->plan = spread(options->plan);
    return run_roof(*options);
  });
}

void add_aggregate(CLI::App& app, Run& run) {
  auto options = std::make_shared<AggregateOptions>();
  CLI::App* command = app.add_subcommand(
      "aggregate", "compare tall and wide, fused and unfused aggregation in one process");
  command->footer(
      "tall: each thread owns chunks. wide: all threads share one tensor after another. fused: "
      "sum\n"
      "and rule in one pass. unfused: the first gradient is copied, the others are added one by "
      "one,\n"
      "the optimizer comes last. roof: the simplest loop over the same arrays.\n\n"
      "  phub-bench aggregate --workers 4 --rule nesterov");
  command->add_option("--workers,-N", options->workers, "gradients to aggregate")
      ->check(worker_range());
  add_size(*command, options->elements, &options->keys);
  add_any_rule(*command, options->rule);
  add_threads(*command, options->threads);
  command->add_option("--chunk-kib", options->chunk_kib, "size of a chunk in KiB")
      ->check(CLI::Range(1U, 16U * 1024U));
  add_plan(*command, options->plan);
  command->add_flag("--json", options->json, "one JSON object a line instead of a table");
  runs(*command, run, [options] {
    options->plan = spread(options->plan);
    return run_aggregate(*options);
  });
}

void add_select(CLI::App& app, Run& run) {
  auto options = std::make_shared<SelectOptions>();
  CLI::App* command =
      app.add_subcommand("select", "compare the selectors of the largest elements, on one core");
  command->footer(
      "What a worker sends of a gradient when it compresses (train.compress): exactly the k "
      "largest\n"
      "by magnitude, or with mstopk nearly these.\n\n"
      "  phub-bench select --elements 1000000 --density 0.01");
  add_size(*command, options->elements, nullptr);
  command->add_option("--density", options->density, "share of the elements that is selected")
      ->check(number_range(1e-9, 1.0));
  command->add_option("--rounds", options->rounds, "of mstopk's bisection")
      ->check(CLI::Range(1U, 64U));
  add_plan(*command, options->plan);
  command->add_flag("--json", options->json, "one JSON object a line instead of a table");
  runs(*command, run, [options] {
    options->plan = spread(options->plan);
    return run_select(*options);
  });
}

}  // namespace phub::bench

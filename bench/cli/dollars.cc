#include "bench/dollars/dollars.h"

#include <memory>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"

namespace phub::bench {
namespace {

constexpr double kNearestToNothing = 1e-3;
constexpr double kFurthest = 1e5;

void add_curves(CLI::App& command, DollarsOptions& options) {
  command
      .add_option("--curve", options.curves,
                  "how the figures follow gpu-speed, model-size, oversubscription, server-nics, "
                  "workers (in a rack) or price:PART (a part's name, or power), and where a "
                  "deployment breaks even with the first; may be given several times")
      ->expected(1)
      ->take_all();
  CLI::Option* from = command.add_option("--from", options.range.from,
                                         "the curve's range; left out: one that suits its axis");
  CLI::Option* to = command.add_option("--to", options.range.to, "the end of that range");
  from->check(number_range(kNearestToNothing, kFurthest))->needs(to)->needs("--curve");
  to->check(number_range(kNearestToNothing, kFurthest))->needs(from);
  command.add_option("--points", options.range.points, "points of a curve, at most")
      ->check(CLI::Range(2U, 10'000U))
      ->needs("--curve")
      ->capture_default_str();
  command
      .add_option("--sensitivity", options.sensitivity_percent,
                  "what each price, the GPUs' speed and the model's size would change if it were "
                  "off by so many per cent")
      ->check(number_range(0.1, 1000.0));
}

}  // namespace

void add_dollars(CLI::App& app, Run& run) {
  auto options = std::make_shared<DollarsOptions>();
  CLI::App* command = app.add_subcommand("dollars", "throughput per dollar, from a price file");
  command->footer(
      "Compares deployments: workers that serve each other, a ring, a PBox (a server of its own\n"
      "with many NICs), several racks under an oversubscribed core. The file says what parts cost\n"
      "and when (proto/prices.proto describes it; configs/prices.textproto is one to start from).\n"
      "Each figure says whether its throughput was measured, predicted by the cost model, which\n"
      "is a bound from above, or published by others.\n\n"
      "  phub-bench dollars --prices configs/prices.textproto\n"
      "  phub-bench dollars --prices FILE --curve gpu-speed --svg curve.svg --sensitivity 25\n"
      "  phub-bench exchange --transport tcp --workers 8 --json > exchange.json\n"
      "  phub-bench dollars --prices FILE --measured 'PBox, 25 Gb/s=exchange.json'");
  command->add_option("--prices", options->prices, "price file (textproto)")->required();
  command
      ->add_option("--measured", options->measured,
                   "DEPLOYMENT=NUMBER (samples a second of all workers), or DEPLOYMENT=FILE: one "
                   "line of 'phub-bench exchange --json', or the metrics of a training; may be "
                   "given several times")
      ->expected(1)
      ->take_all();
  add_curves(*command, *options);
  command->add_option("--csv", options->csv,
                      "write the table, or the curves' points, to this file");
  command->add_option("--svg", options->svg, "draw the table, or the curves, to this file");
  command->add_flag("--json", options->json, "one JSON object a line instead of tables");
  command->callback([options, &run] { run = [options] { return run_dollars(*options); }; });
}

}  // namespace phub::bench

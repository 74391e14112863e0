#include "bench/rack/rack.h"

#include <memory>

#include "bench/cli/cli.h"

namespace phub::bench {

void add_rack(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "rack",
      "racks of network namespaces with shaped links, and real servers and workers in them");
  command->require_subcommand(1);
  command->footer(
      "Each host is a network namespace, each switch a bridge, each link a veth pair whose two\n"
      "ways tc's tbf holds to their rate. Needs root, and Debian's iproute2. All of it is removed\n"
      "at the end and on an interrupt; what a killed run left, the next one removes. A scenario\n"
      "with `hosts` of its racks drives real machines instead, over ssh.\n\n"
      "  phub-bench rack check\n"
      "  phub-bench rack run bench/rack/scenarios/two_racks.textproto");
  auto options = std::make_shared<RackOptions>();
  CLI::App* run_command = command->add_subcommand("run", "run a scenario and report");
  run_command->footer(
      "The report says how near a round is to what the busiest link allows, what was counted at\n"
      "each interface, and how busy the CPUs were: below 70 % each, links are the limit. With\n"
      "`training` it has images a second, loss and accuracy; with `faults`, how each worker "
      "ended.\n"
      "On a terminal a bar shows how much is done and about how long the rest takes; elsewhere "
      "lines\n"
      "on standard error do. "
      "Fields of a scenario are in proto/rack.proto. Exit code: 0; 1 after a wrong sum, a "
      "failure,\n"
      "a worker that hangs or blames another than who is at fault, or where racks cannot be "
      "built;\n"
      "2 for a wrong scenario.");
  run_command->add_option("SCENARIO", options->scenario, "a textproto")->required();
  CLI::App* check = command->add_subcommand(
      "check", "can racks be built here? Builds a small one; else says what is missing");
  CLI::App* clean = command->add_subcommand("clean", "remove what killed runs left");
  for (CLI::App* const each : {run_command, check, clean}) {
    each->add_flag("--json", options->json, "one JSON object a line");
  }
  run_command->callback([options, &run] { run = [options] { return run_rack(*options); }; });
  check->callback([options, &run] { run = [options] { return check_rack(options->json); }; });
  clean->callback([options, &run] { run = [options] { return clean_racks(options->json); }; });
}

}  // namespace phub::bench

#include <memory>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"
#include "bench/compare/commands.h"

namespace phub::bench {

void add_tenants(CLI::App& app, Run& run) {
  auto options = std::make_shared<TenantsOptions>();
  CLI::App* command = app.add_subcommand("tenants", "what tenants do to each other on one server");
  command->footer(
      "A server with one pinned core, workers on the other CPUs; rates are the server's count of\n"
      "exchanges over --seconds. Below capacity: 8 training jobs (LeNet's and ResNet-20's size)\n"
      "together against each alone. Saturation: jobs that push a key again as soon as its\n"
      "replies are there, of tenants with the weights 1:2:4; the server must be what is scarce:\n"
      "the time in which the workers' CPUs worked is printed. Flood: a tenant with six such jobs\n"
      "beside two with one, then garbage on the data port. What a job gets alone is measured on\n"
      "the same server while the others' workers are stopped (SIGSTOP), in slices that take\n"
      "turns (--slice): where memory lies makes a server faster or slower by a fifth, and speed\n"
      "drifts.\n\n"
      "  phub-bench tenants --transport shm,tcp --seconds 10 --blocks 3");
  command->add_option("--transport", options->transports, "shm, tcp or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "tcp"}));
  command->add_option("--scenarios", options->scenarios, "below, saturation, flood or several")
      ->delimiter(',')
      ->check(CLI::IsMember({"below", "saturation", "flood"}));
  command->add_option("--seconds", options->seconds, "of each measurement")
      ->check(CLI::Range(0.1, 3600.0));
  command
      ->add_option("--slice", options->slice,
                   "seconds for which one set of jobs runs before the next has its turn")
      ->check(CLI::Range(0.1, 3600.0));
  command->add_option("--blocks", options->blocks, "repetitions of each scenario")
      ->check(CLI::PositiveNumber);
  command->add_option("--workers,-N", options->workers, "workers of a saturating job")
      ->check(CLI::Range(1U, 64U));
  command->add_option("--elements,-E", options->elements, "elements of a saturating job")
      ->check(CLI::PositiveNumber);
  add_dtype(*command, options->dtype, "element type of a saturating job on the wire");
  command
      ->add_option("--compute-us", options->compute_us,
                   "what a worker below capacity does between two exchanges, microseconds")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "one JSON object a line instead of a table");
  runs(*command, run, [options] { return run_tenants(*options); });
}

}  // namespace phub::bench

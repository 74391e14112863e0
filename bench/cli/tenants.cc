#include <memory>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"
#include "bench/compare/commands.h"
#include "bench/tenants/worker.h"
#include "common/base/rule.h"

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

void add_tenant_workers(CLI::App& app, Run& run) {
  struct Words {
    TenantWorkerOptions options;
    std::string rule;
    std::string dtype;
    std::uint16_t port = 0;
  };
  auto words = std::make_shared<Words>();
  CLI::App* worker = app.add_subcommand("tenant-worker")->group("");
  worker->add_option("--server", words->options.server)->required();
  worker->add_option("--tenant", words->options.load.tenant)->required();
  worker->add_option("--job", words->options.load.job)->required();
  worker->add_option("--workers", words->options.load.workers)->required();
  worker->add_option("--index", words->options.index)->required();
  worker->add_option("--elements", words->options.load.elements)->required();
  worker->add_option("--keys", words->options.load.keys)->required();
  worker->add_option("--rule", words->rule)->required();
  worker->add_option("--dtype", words->dtype)->required();
  worker->add_option("--transport", words->options.load.transport)->required();
  worker->add_option("--compute-us", words->options.load.compute_us)->required();
  worker->add_option("--weight", words->options.load.weight)->required();
  worker->add_option("--spare-cpus", words->options.spare_cpus)->required();
  worker->callback([words, &run] {
    run = [words] {
      words->options.load.rule = parse_rule_kind(words->rule).value_or(RuleKind::kNesterov);
      words->options.load.dtype = parse_data_type(words->dtype).value_or(DataType::kFloat32);
      return run_tenant_worker(words->options);
    };
  });
  CLI::App* garbage = app.add_subcommand("garbage-worker")->group("");
  garbage->add_option("--port", words->port)->required();
  garbage->add_option("--spare-cpus", words->options.spare_cpus)->required();
  garbage->callback([words, &run] {
    run = [words] { return run_garbage_worker(words->port, words->options.spare_cpus); };
  });
}

}  // namespace phub::bench

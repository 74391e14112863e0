#include <memory>

#include "bench/cli/cli.h"
#include "bench/exchange/worker.h"
#include "bench/memory/roof.h"
#include "bench/tenants/worker.h"

namespace phub::bench {
namespace {

// A hidden subcommand: a process of the bench's own, which gets its options as the bench's JSON.
template <typename Options>
void add_worker(CLI::App& app, Run& run, const std::string& name,
                Status (*work)(const WorkerHello&, const Options&)) {
  auto hello = std::make_shared<WorkerHello>();
  auto options = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(name)->group("");
  command->add_option("options", *options)->required();
  command->add_option("--control", hello->control);
  command->add_option("--index", hello->index);
  command->callback([=, &run] {
    run = [=] {
      end_with_parent();
      return work(*hello, nlohmann::json::parse(*options).template get<Options>());
    };
  });
}

}  // namespace

void add_workers(CLI::App& app, Run& run) {
  add_worker(app, run, "exchange-worker", run_exchange_worker);
  add_worker(app, run, "roof-worker", run_roof_worker);
  add_worker(app, run, "tenant-worker", run_tenant_worker);
  add_worker(app, run, "garbage-worker", run_garbage_worker);
}

}  // namespace phub::bench

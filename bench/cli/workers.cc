#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/cli/cli.h"
#include "bench/delay/delayed_server.h"
#include "bench/exchange/worker.h"
#include "bench/memory/roof.h"
#include "bench/replay/worker.h"
#include "bench/stragglers/worker.h"
#include "bench/tenants/worker.h"

namespace phub::bench {
namespace {

// A hidden subcommand: a process of the bench's own, which gets its options as the bench's JSON.
template <typename Options>
using WorkerRun = std::function<Status(const WorkerHello&, const Options&)>;

template <typename Options>
CLI::App& add_worker(CLI::App& app, Run& run, const std::string& name, WorkerRun<Options> work) {
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
  return *command;
}

template <typename Options>
void add_worker(CLI::App& app, Run& run, const std::string& name,
                Status (*work)(const WorkerHello&, const Options&)) {
  add_worker(app, run, name, WorkerRun<Options>(work));
}

// As bench/processes/phub_servers.h starts it.
void add_delayed_server(CLI::App& app, Run& run) {
  auto delay_us = std::make_shared<std::uint32_t>();
  auto config = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("delayed-server")->group("");
  command->add_option("delay-us", *delay_us)->required();
  command->add_option("config", *config)->required();
  command->callback([=, &run] {
    run = [=] { return run_delayed_server(std::chrono::microseconds(*delay_us), *config); };
  });
}

}  // namespace

void add_workers(CLI::App& app, Run& run) {
  add_worker(app, run, "exchange-worker", run_exchange_worker);
  add_worker(app, run, "roof-worker", run_roof_worker);
  const auto plan = std::make_shared<std::string>();
  const WorkerRun<replay::ServedReplay> replays = [plan](const WorkerHello& hello,
                                                         const replay::ServedReplay& served) {
    return replay::run_replay_worker(hello, served, *plan);
  };
  add_worker(app, run, "replay-worker", replays).add_option("--plan", *plan)->required();
  add_worker(app, run, "straggler-worker", stragglers::run_straggler_worker);
  add_worker(app, run, "tenant-worker", run_tenant_worker);
  add_worker(app, run, "garbage-worker", run_garbage_worker);
  add_delayed_server(app, run);
}

}  // namespace phub::bench

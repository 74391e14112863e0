// One PHub worker of the bench: pushes all keys in backward order, waits for all. The hidden
// subcommand "exchange-worker". Main thread of its process.
#pragma once

#include <string>
#include <vector>

#include "bench/base/worker_loop.h"
#include "bench/processes/work.h"

namespace phub::bench {

struct ExchangeWorkerOptions {
  WorkerHello hello;
  Work work;
  std::vector<std::string> servers;  // control addresses
  std::string job;
};

Status run_exchange_worker(const ExchangeWorkerOptions& options);

}  // namespace phub::bench

// The processes of a tenancy measurement: the hidden subcommands "tenant-worker" and
// "garbage-worker". Main thread of their process; they end with the bench.
#pragma once

#include <cstdint>
#include <string>

#include "bench/base/worker_loop.h"
#include "bench/tenants/load.h"

namespace phub::bench {

struct TenantWorkerOptions {
  Load load;
  std::string server;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TenantWorkerOptions, load, server)

Status run_tenant_worker(const WorkerHello& hello, const TenantWorkerOptions& options);

// Connects to the data port, sends what is no handshake, and again.
Status run_garbage_worker(const WorkerHello& hello, const std::uint16_t& port);

}  // namespace phub::bench

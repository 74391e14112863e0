// The processes of a tenancy measurement: the hidden subcommands "tenant-worker" and
// "garbage-worker". Main thread of their process; they end with the bench.
#pragma once

#include <cstdint>
#include <string>

#include "bench/tenants/load.h"

namespace phub::bench {

struct TenantWorkerOptions {
  Load load;
  std::string server;
  std::int32_t index = 0;
  std::uint32_t spare_cpus = 0;  // the first CPUs are the server's
};
Status run_tenant_worker(const TenantWorkerOptions& options);

// Connects to the data port, sends what is no handshake, and again.
Status run_garbage_worker(std::uint16_t port, std::uint32_t spare_cpus);

}  // namespace phub::bench

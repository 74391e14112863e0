#include "bench/tenants/worker.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "bench/base/keys.h"
#include "common/base/affinity.h"
#include "common/base/unique_fd.h"
#include "common/job/used_hyper.h"
#include "worker/client/phub.h"

namespace phub::bench {
namespace {

// Leaves the server's CPUs alone, if there are others.
void spare_cpus() {
  const auto cpus = usable_cpus();
  if (!cpus || cpus->size() <= kServerCores) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t i = kServerCores; i < cpus->size(); ++i) CPU_SET((*cpus)[i], &set);
  sched_setaffinity(0, sizeof(set), &set);  // a hint: without it the figures are worse, not wrong
}

// Gives this process the share of its CPUs that its weight says: Linux schedules in proportion to
// 1.25^-nice. Weights from 8 on are all that nobody needs a privilege for.
void take_priority(std::uint32_t weight) {
  constexpr double kHeaviest = 8.0;
  const double steps = std::log(std::max(1.0, kHeaviest / weight)) / std::log(1.25);
  setpriority(PRIO_PROCESS, 0, static_cast<int>(std::lround(steps)));  // a hint, as above
}

constexpr Hyper kTenantHyper = {.learning_rate = 1e-6F, .momentum = 0.9F, .gradient_scale = 0.0F};

Result<std::unique_ptr<Client>> connect(std::uint32_t index, const TenantWorkerOptions& options) {
  const Load& load = options.load;
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> sizes,
                        make_keys(load.keys, load.elements));
  ClientOptions client_options{.servers = {options.server},
                               .job = {.name = load.job,
                                       .workers = load.workers,
                                       .wire_type = load.dtype,
                                       .rule = load.rule,
                                       .hyper = used_by(load.rule, kTenantHyper)},
                               .worker_index = static_cast<std::int32_t>(index),
                               .transport = load.transport,
                               .timeout = std::chrono::seconds(60)};
  client_options.security.tenant = load.tenant;
  PHUB_ASSIGN_OR_RETURN(auto client, Client::connect(client_options));
  std::vector<KeySpec> keys;
  for (std::size_t i = 0; i < sizes.size(); ++i) keys.push_back({fmt::format("k{}", i), sizes[i]});
  PHUB_RETURN_IF_ERROR(client->register_keys(keys));
  if (has_parameters(load.rule)) {
    PHUB_RETURN_IF_ERROR(client->initialise());
    PHUB_RETURN_IF_ERROR(client->wait_all());
  }
  return client;
}

// A step's exchange: all keys, last first.
Status step(Client& client, KeyId keys, std::chrono::microseconds compute) {
  std::this_thread::sleep_for(compute);
  for (KeyId key = keys; key-- > 0;) PHUB_RETURN_IF_ERROR(client.push(key));
  return client.wait_all();
}

Status exchange_for_ever(Client& client, KeyId keys, std::chrono::microseconds compute) {
  if (compute.count() > 0) {
    while (true) PHUB_RETURN_IF_ERROR(step(client, keys, compute));
  }
  for (KeyId key = 0; key < keys; ++key) PHUB_RETURN_IF_ERROR(client.push(key));
  while (true) {
    for (KeyId key = 0; key < keys; ++key) {
      PHUB_RETURN_IF_ERROR(client.wait(key));
      PHUB_RETURN_IF_ERROR(client.push(key));
    }
  }
}

}  // namespace

Status run_tenant_worker(const WorkerHello& hello, const TenantWorkerOptions& options) {
  spare_cpus();
  take_priority(options.load.weight);
  PHUB_ASSIGN_OR_RETURN(const auto client, connect(hello.index, options));
  fmt::print("running\n");
  std::fflush(stdout);
  const auto keys = static_cast<KeyId>(make_keys(options.load.keys, options.load.elements)->size());
  return exchange_for_ever(*client, keys, std::chrono::microseconds(options.load.compute_us));
}

Status run_garbage_worker(const WorkerHello& /*hello*/, const std::uint16_t& port) {
  spare_cpus();
  setpriority(PRIO_PROCESS, 0, 19);  // strangers have CPUs of their own: not the workers' time
  std::mt19937 random(1);
  std::array<char, 4096> garbage = {};
  for (char& byte : garbage) byte = static_cast<char>(random());
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  while (true) {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno_status("socket");
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      return errno_status("connecting to the data port");
    }
    while (::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0) {
    }
  }
}

}  // namespace phub::bench

// The workers of a job as threads of the test.
#pragma once

#include <thread>
#include <vector>

#include "worker/client/phub.h"

namespace phub {

// Runs `body(client)` in one thread for each worker, whose own options `adapt(options)` completes;
// returns the first error.
template <typename Body, typename Adapt>
Status run_workers(const ClientOptions& base, const std::vector<KeySpec>& keys, Body body,
                   Adapt adapt) {
  std::vector<Status> results(base.job.workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < base.job.workers; ++w) {
    threads.emplace_back([&, w] {
      ClientOptions options = base;
      options.worker_index = static_cast<std::int32_t>(w);
      adapt(options);
      auto client = Client::connect(options);
      if (!client) {
        results[w] = client.error();
        return;
      }
      results[w] = (*client)->register_keys(keys);
      if (results[w].ok()) results[w] = body(**client);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Status& status : results) {
    if (!status.ok()) return status;
  }
  return {};
}

template <typename Body>
Status run_workers(const ClientOptions& base, const std::vector<KeySpec>& keys, Body body) {
  return run_workers(base, keys, body, [](ClientOptions&) {});
}

}  // namespace phub

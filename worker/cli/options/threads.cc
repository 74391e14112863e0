#include "worker/cli/options/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "common/base/affinity.h"
#include "common/config/data_format.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

// What phubrun and torchrun tell each worker; 0: nothing.
std::uint32_t workers_beside_this_one() {
  const char* const text = std::getenv("LOCAL_WORLD_SIZE");
  if (text == nullptr) return 0;
  const std::string_view word = text;
  std::uint32_t workers = 0;
  std::from_chars(word.data(), word.data() + word.size(), workers);
  return workers;
}

bool are_on_this_host(const WorkerConfig& config) {
  return config.servers_size() > 0 &&
         std::all_of(config.servers().begin(), config.servers().end(), [](const auto& text) {
           const auto address = parse_address(text);
           return address && is_loopback(address->host);
         });
}

// This process's CPUs: servers at a loopback address have half of all, and all workers share the
// others.
std::uint32_t share_of(const WorkerConfig& config, std::uint32_t cpus,
                       std::uint32_t local_workers) {
  const bool is_local = are_on_this_host(config);
  const std::uint32_t workers = is_local ? config.workers() : std::max(1U, local_workers);
  return cpus / (is_local ? 2 : 1) / workers;
}

}  // namespace

std::uint32_t threads_of(const WorkerConfig& config) {
  return threads_of(config, usable_cpu_count(), workers_beside_this_one());
}

std::uint32_t threads_of(const WorkerConfig& config, std::uint32_t cpus,
                         std::uint32_t local_workers) {
  const TrainConfig& train = config.train();
  if (train.threads() != 0) return train.threads();
  if (train.backend() != "onednn") return 1;
  return std::max(1U, share_of(config, cpus, local_workers) / std::max(1U, train.groups()));
}

std::uint32_t feed_threads_of(const WorkerConfig& config) {
  return feed_threads_of(config, usable_cpu_count(), workers_beside_this_one());
}

std::uint32_t feed_threads_of(const WorkerConfig& config, std::uint32_t cpus,
                              std::uint32_t local_workers) {
  if (config.data().batches_ahead() == 0) return 0;
  if (config.data().threads() > 0) return config.data().threads();
  if (!is_encoded(kDataFormatWords.parse(config.data().format()).value())) return 0;
  const std::uint32_t share = share_of(config, cpus, local_workers);
  const std::uint32_t compute =
      threads_of(config, cpus, local_workers) * std::max(1U, config.train().groups());
  return share > compute ? share - compute : 1;
}

}  // namespace phub

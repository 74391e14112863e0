#include "worker/cli/options/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "common/base/affinity.h"
#include "common/config/data_format.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

// The system itself keeps one thread from another on fewer CPUs.
constexpr std::uint32_t kLeastFeedCpus = 2;
constexpr std::uint32_t kCpusToDivide = 1 + kLeastFeedCpus;

// What phubrun and torchrun tell each worker.
std::optional<std::uint32_t> told(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view word = text;
  std::uint32_t number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size()) return std::nullopt;
  return number;
}

// With this one; 0: unknown.
std::uint32_t workers_on_this_host() { return told("LOCAL_WORLD_SIZE").value_or(0); }

bool are_on_this_host(const WorkerConfig& config) {
  return config.servers_size() > 0 &&
         std::all_of(config.servers().begin(), config.servers().end(), [](const auto& text) {
           const auto address = parse_address(text);
           return address && is_loopback(address->host);
         });
}

std::uint32_t workers_of_host(const WorkerConfig& config, std::uint32_t local_workers) {
  return are_on_this_host(config) ? config.workers() : std::max(1U, local_workers);
}

// Servers at a loopback address have half of all CPUs.
std::uint32_t cpus_of_servers(const WorkerConfig& config, std::uint32_t cpus) {
  return are_on_this_host(config) ? cpus - cpus / 2 : 0;
}

// This process's CPUs: all workers of the host share those that servers do not have.
std::uint32_t share_of(const WorkerConfig& config, std::uint32_t cpus,
                       std::uint32_t local_workers) {
  return (cpus - cpus_of_servers(config, cpus)) / workers_of_host(config, local_workers);
}

std::uint32_t compute_threads_of(const WorkerConfig& config, std::uint32_t cpus,
                                 std::uint32_t local_workers) {
  return threads_of(config, cpus, local_workers) * std::max(1U, config.train().groups());
}

// Which share of the host's CPUs is this worker's.
std::optional<std::uint32_t> place_of(const WorkerConfig& config, const LocalWorkers& local) {
  const std::uint32_t workers = workers_of_host(config, local.workers);
  // Others may have been started by hand on this host, which nobody told.
  const bool is_known = config.workers() == 1 || are_on_this_host(config) || local.workers > 0;
  if (!is_known) return std::nullopt;
  if (workers == 1) return 0;
  std::optional<std::uint32_t> place = local.index;
  if (!place && are_on_this_host(config) && config.worker_index() >= 0) {
    place = static_cast<std::uint32_t>(config.worker_index());
  }
  return place && *place < workers ? place : std::nullopt;
}

// One hardware thread of each core before any second one.
std::vector<UsableCpu> by_rank(std::span<const UsableCpu> cpus) {
  std::vector<UsableCpu> sorted(cpus.begin(), cpus.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const UsableCpu& a, const UsableCpu& b) { return a.rank < b.rank; });
  return sorted;
}

// Those that are left when servers on this host have taken theirs, in the order of `usable`.
std::vector<UsableCpu> beside_servers(std::span<const UsableCpu> usable, std::uint32_t servers) {
  const std::vector<UsableCpu> sorted = by_rank(usable);
  std::vector<UsableCpu> left;
  for (const UsableCpu& each : usable) {
    const auto is_it = [&](const UsableCpu& taken) { return taken.cpu == each.cpu; };
    if (std::none_of(sorted.begin(), sorted.begin() + servers, is_it)) left.push_back(each);
  }
  return left;
}

// Each thread waits for one sample of another worker at a time. Eight of them keep a link busy
// (worker/data/spread/README.md).
std::uint32_t least_feed_threads(const WorkerConfig& config) {
  constexpr std::uint32_t kToOtherWorkers = 8;
  const bool has_others = config.servers_size() > 0 && config.workers() != 1;
  return config.data().has_spread() && has_others ? kToOtherWorkers : 1;
}

}  // namespace

std::uint32_t threads_of(const WorkerConfig& config) {
  return threads_of(config, usable_cpu_count(), workers_on_this_host());
}

std::uint32_t threads_of(const WorkerConfig& config, std::uint32_t cpus,
                         std::uint32_t local_workers) {
  const TrainConfig& train = config.train();
  if (train.threads() != 0) return train.threads();
  if (train.backend() != "onednn") return 1;
  return std::max(1U, share_of(config, cpus, local_workers) / std::max(1U, train.groups()));
}

std::uint32_t feed_threads_of(const WorkerConfig& config) {
  return feed_threads_of(config, usable_cpu_count(), workers_on_this_host());
}

std::uint32_t feed_threads_of(const WorkerConfig& config, std::uint32_t cpus,
                              std::uint32_t local_workers) {
  if (config.data().batches_ahead() == 0) return 0;
  if (config.data().threads() > 0) return config.data().threads();
  if (!is_encoded(kDataFormatWords.parse(config.data().format()).value())) return 0;
  const std::uint32_t share = share_of(config, cpus, local_workers);
  const std::uint32_t compute = compute_threads_of(config, cpus, local_workers);
  return std::max(least_feed_threads(config), share > compute ? share - compute : 0);
}

std::vector<std::uint32_t> feed_cpus_of(const WorkerConfig& config) {
  const std::uint32_t cpus = usable_cpu_count();
  if (cpus < kCpusToDivide || feed_threads_of(config) == 0) return {};
  const auto usable = usable_cpus_by_core();
  if (!usable) return {};
  return feed_cpus_of(config, *usable, cpus,
                      {.workers = workers_on_this_host(), .index = told("LOCAL_RANK")});
}

std::vector<std::uint32_t> feed_cpus_of(const WorkerConfig& config,
                                        std::span<const UsableCpu> usable, std::uint32_t cpus,
                                        const LocalWorkers& local) {
  if (usable.size() != cpus || feed_threads_of(config, cpus, local.workers) == 0) return {};
  const auto place = place_of(config, local);
  const std::uint32_t share = share_of(config, cpus, local.workers);
  const std::uint32_t compute = compute_threads_of(config, cpus, local.workers);
  if (!place || share < compute + kLeastFeedCpus) return {};
  const std::vector<UsableCpu> left = beside_servers(usable, cpus_of_servers(config, cpus));
  const std::vector<UsableCpu> own =
      by_rank(std::span(left).subspan(std::size_t{*place} * share, share));
  std::vector<std::uint32_t> chosen;
  for (std::size_t i = compute; i < own.size(); ++i) chosen.push_back(own[i].cpu);
  return chosen;
}

}  // namespace phub

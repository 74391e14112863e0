// On which CPUs the threads of data.threads run, for machines of many shapes.
#include <catch2/catch.hpp>
#include <vector>

#include "worker/cli/options/threads.h"

namespace phub {
namespace {

using Cpus = std::vector<std::uint32_t>;

// Numbered as Linux does it: a hardware thread of each core first.
std::vector<UsableCpu> machine(std::uint32_t cores, std::uint32_t threads_of_core = 1) {
  std::vector<UsableCpu> cpus;
  for (std::uint32_t core = 0; core < cores; ++core) {
    for (std::uint32_t rank = 0; rank < threads_of_core; ++rank) {
      cpus.push_back({.cpu = core + rank * cores, .rank = rank});
    }
  }
  return cpus;
}

WorkerConfig images_on_gpu() {
  WorkerConfig config;
  config.mutable_data()->set_format("folder");
  config.mutable_train()->set_backend("cuda");
  return config;
}

WorkerConfig images_on_cpus(std::uint32_t threads) {
  WorkerConfig config;
  config.mutable_data()->set_format("folder");
  config.mutable_train()->set_threads(threads);
  return config;
}

Cpus chosen(const WorkerConfig& config, const std::vector<UsableCpu>& usable,
            const LocalWorkers& local = {}) {
  return feed_cpus_of(config, usable, static_cast<std::uint32_t>(usable.size()), local);
}

TEST_CASE("one or two CPUs are not divided") {
  CHECK(chosen(images_on_gpu(), machine(1)).empty());
  CHECK(chosen(images_on_gpu(), machine(2)).empty());
  CHECK(chosen(images_on_gpu(), machine(1, 2)).empty());
  CHECK(chosen(images_on_cpus(1), machine(2)).empty());
}

TEST_CASE("input has the CPUs that compute leaves") {
  CHECK(chosen(images_on_gpu(), machine(4)) == Cpus{1, 2, 3});
  CHECK(chosen(images_on_cpus(4), machine(8)) == Cpus{4, 5, 6, 7});
  CHECK(chosen(images_on_cpus(6), machine(8)) == Cpus{6, 7});
}

TEST_CASE("fewer than two CPUs beside compute are nobody's") {
  CHECK(chosen(images_on_cpus(0), machine(8)).empty());
  CHECK(chosen(images_on_cpus(7), machine(8)).empty());
  CHECK(chosen(images_on_cpus(12), machine(8)).empty());
}

TEST_CASE("compute has whole cores before input has second hardware threads") {
  CHECK(chosen(images_on_cpus(4), machine(4, 2)) == Cpus{4, 5, 6, 7});
  CHECK(chosen(images_on_cpus(2), machine(4, 2)) == Cpus{2, 3, 4, 5, 6, 7});
}

TEST_CASE("replicas of a worker compute on as many CPUs each") {
  WorkerConfig config = images_on_cpus(2);
  config.mutable_train()->set_groups(3);
  CHECK(chosen(config, machine(8)) == Cpus{6, 7});
}

TEST_CASE("workers of one host have shares that do not overlap") {
  const WorkerConfig config = images_on_gpu();
  CHECK(chosen(config, machine(16), {.workers = 4, .index = 0}) == Cpus{1, 2, 3});
  CHECK(chosen(config, machine(16), {.workers = 4, .index = 3}) == Cpus{13, 14, 15});
  // A share has both hardware threads of its cores.
  CHECK(chosen(config, machine(8, 2), {.workers = 2, .index = 0}) == Cpus{1, 2, 3, 8, 9, 10, 11});
  CHECK(chosen(config, machine(8, 2), {.workers = 2, .index = 1}) == Cpus{5, 6, 7, 12, 13, 14, 15});
}

TEST_CASE("a worker that does not know its share runs its input anywhere") {
  const WorkerConfig config = images_on_gpu();
  CHECK(chosen(config, machine(16), {.workers = 4}).empty());
  CHECK(chosen(config, machine(16), {.workers = 4, .index = 4}).empty());
  // Several are on hosts that nobody tells.
  WorkerConfig far = images_on_gpu();
  far.add_servers("192.0.2.1:7077");
  far.set_workers(4);
  far.set_worker_index(1);
  CHECK(chosen(far, machine(16)).empty());
  CHECK(chosen(far, machine(16), {.workers = 1, .index = 0}).size() == 15);
}

TEST_CASE("servers on this host keep the CPUs that they pin their cores to") {
  WorkerConfig config = images_on_gpu();
  config.add_servers("127.0.0.1:7077");
  CHECK(chosen(config, machine(8)) == Cpus{5, 6, 7});
  // They have the first hardware thread of each core.
  CHECK(chosen(config, machine(4, 2)) == Cpus{5, 6, 7});
  CHECK(chosen(config, machine(9)) == Cpus{6, 7, 8});
  config.set_workers(2);
  CHECK(chosen(config, machine(16)).empty());
  config.set_worker_index(1);
  CHECK(chosen(config, machine(16)) == Cpus{13, 14, 15});
  CHECK(chosen(config, machine(16), {.workers = 2, .index = 0}) == Cpus{9, 10, 11});
}

TEST_CASE("CPUs that taskset or a control group leave out are not chosen") {
  const std::vector<UsableCpu> some = {{.cpu = 3}, {.cpu = 5}, {.cpu = 9}, {.cpu = 12}};
  CHECK(chosen(images_on_gpu(), some) == Cpus{5, 9, 12});
}

TEST_CASE("a quota of less than the CPUs' time divides none") {
  CHECK(feed_cpus_of(images_on_gpu(), machine(16), 4, {}).empty());
}

TEST_CASE("images in memory and batches on the training's thread need no CPUs") {
  WorkerConfig config = images_on_gpu();
  config.mutable_data()->set_batches_ahead(0);
  CHECK(chosen(config, machine(8)).empty());
  config = images_on_gpu();
  config.mutable_data()->set_format("idx");
  CHECK(chosen(config, machine(8)).empty());
}

}  // namespace
}  // namespace phub

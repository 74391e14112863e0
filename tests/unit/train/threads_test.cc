// What --threads auto takes.
#include "worker/cli/options/threads.h"

#include <catch2/catch.hpp>

namespace phub {
namespace {

TEST_CASE("without a number of threads a worker takes its share of the CPUs") {
  WorkerConfig config;
  CHECK(threads_of(config, 8, 0) == 8);
  CHECK(threads_of(config, 8, 3) == 2);
  CHECK(threads_of(config, 2, 4) == 1);
  config.mutable_train()->set_groups(2);
  CHECK(threads_of(config, 8, 0) == 4);
  config.mutable_train()->set_threads(5);
  CHECK(threads_of(config, 8, 3) == 5);
}

TEST_CASE("beside servers on this host all workers share half of the CPUs") {
  WorkerConfig config;
  config.set_workers(2);
  config.add_servers("127.0.0.1:7077");
  CHECK(threads_of(config, 8, 0) == 2);
  CHECK(threads_of(config, 2, 0) == 1);
  config.add_servers("192.0.2.1:7077");
  CHECK(threads_of(config, 8, 0) == 8);
}

TEST_CASE("workers that ask each other for images have at least eight threads for it") {
  WorkerConfig config;
  config.set_workers(4);
  config.add_servers("192.0.2.1:7077");
  config.mutable_data()->set_format("packed");
  config.mutable_train()->set_threads(2);
  CHECK(feed_threads_of(config, 2, 0) == 1);
  config.mutable_data()->mutable_spread()->set_memory_mib(9);
  CHECK(feed_threads_of(config, 2, 0) == 8);
  CHECK(feed_threads_of(config, 16, 0) == 14);
  config.mutable_data()->set_threads(3);
  CHECK(feed_threads_of(config, 16, 0) == 3);
  config.mutable_data()->set_threads(0);
  config.set_workers(1);
  CHECK(feed_threads_of(config, 2, 0) == 1);
  config.set_workers(4);
  config.clear_servers();  // --local
  CHECK(feed_threads_of(config, 2, 0) == 1);
}

TEST_CASE("a backend that computes on one thread, or on none, takes one") {
  WorkerConfig config;
  config.mutable_train()->set_backend("reference");
  CHECK(threads_of(config, 8, 0) == 1);
}

}  // namespace
}  // namespace phub

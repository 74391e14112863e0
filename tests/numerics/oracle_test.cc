// The oracle: N workers with batch B through a server equal one process with batch N * B, step by
// step.
#include <catch2/catch.hpp>
#include <thread>

#include "tests/numerics/training_worker.h"
#include "tests/support/server/test_server.h"
#include "worker/data/dataset.h"

namespace phub::train {
namespace {

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint32_t kBatch = 32;
constexpr std::uint64_t kSteps = 20;
constexpr double kTolerance = 1e-5;  // relative to the largest parameter of a key

struct Job {
  const data::Datasets& data;
  std::string server;
  std::string name;
  std::string transport;
  DataType wire_type = DataType::kFloat32;
};

// What one worker of the job has after each step.
Result<std::vector<Snapshot>> train_through_server(const Job& job, std::uint32_t index) {
  PHUB_ASSIGN_OR_RETURN(const auto exchange,
                        make_remote_exchange({.servers = {job.server},
                                              .job = {.name = job.name,
                                                      .workers = kWorkers,
                                                      .wire_type = job.wire_type,
                                                      .rule = RuleKind::kMomentum},
                                              .worker_index = static_cast<std::int32_t>(index),
                                              .transport = job.transport},
                                             lenet_keys()));
  PHUB_ASSIGN_OR_RETURN(
      const auto worker,
      TrainingWorker::create(
          job.data, {.batch = kBatch, .workers = kWorkers, .worker_index = index}, *exchange));
  std::vector<Snapshot> after;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    PHUB_RETURN_IF_ERROR(worker->step(step));
    after.push_back(worker->snapshot());
  }
  return after;
}

std::vector<std::vector<Snapshot>> train_together(const Job& job) {
  std::vector<std::vector<Snapshot>> results(kWorkers);
  std::vector<Status> statuses(kWorkers);
  std::vector<std::thread> threads;
  for (std::uint32_t index = 0; index < kWorkers; ++index) {
    threads.emplace_back([&, index] {
      auto result = train_through_server(job, index);
      if (result)
        results[index] = std::move(*result);
      else
        statuses[index] = result.error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    INFO(status.to_string());
    REQUIRE(status.ok());
  }
  return results;
}

TEST_CASE("Two workers through a server equal one process with their whole batch, step by step") {
  const auto data = data::load_idx(PHUB_MNIST_PATH);
  REQUIRE(data);
  const auto alone = train_alone(*data, kWorkers * kBatch, kSteps);
  REQUIRE(alone);
  auto server = TestServer::start(2);
  REQUIRE(server);
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    const Job job{*data, (*server)->address(), std::string("oracle-") + transport, transport};
    const auto together = train_together(job);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      INFO("step " << step);
      REQUIRE(together[0][step] == together[1][step]);
      REQUIRE(relative_difference(together[0][step], (*alone)[step]) < kTolerance);
    }
    // They learnt something: equality is not that of standing still.
    REQUIRE(relative_difference((*alone)[0], (*alone)[kSteps - 1]) > 1e-2);
  }
}

TEST_CASE("Two runs of the same job through a server are bit-identical") {
  const auto data = data::load_idx(PHUB_MNIST_PATH);
  REQUIRE(data);
  auto server = TestServer::start(2);
  REQUIRE(server);
  const auto first = train_together({*data, (*server)->address(), "first", "tcp"});
  const auto second = train_together({*data, (*server)->address(), "second", "shm"});
  REQUIRE(first == second);
}

// The weights; biases start at zero, so that small numbers are all they have in the first steps.
Snapshot weights_of(const Snapshot& all) {
  const auto keys = lenet_keys();
  Snapshot weights;
  for (std::size_t key = 0; key < all.size(); ++key) {
    if (keys[key].weight_decay > 0.0F) weights.push_back(all[key]);
  }
  return weights;
}

TEST_CASE(
    "With 16 bits on the wire, two workers agree and are right to the precision of the type") {
  struct Case {
    DataType type;
    double unit;  // relative distance of neighbouring numbers
  };
  const auto data = data::load_idx(PHUB_MNIST_PATH);
  REQUIRE(data);
  const auto alone = train_alone(*data, kWorkers * kBatch, 1);
  REQUIRE(alone);
  auto server = TestServer::start(1);
  REQUIRE(server);
  for (const Case& wire : {Case{DataType::kFloat16, 0x1p-10}, Case{DataType::kBfloat16, 0x1p-7}}) {
    const std::string name(name_of(wire.type));
    INFO(name);
    const auto together = train_together({*data, (*server)->address(), name, "shm", wire.type});
    REQUIRE(together[0] == together[1]);
    // Later steps carry the rounding on and amplify it; after the first it is still its own size.
    REQUIRE(relative_difference(weights_of(together[0][0]), weights_of((*alone)[0])) < wire.unit);
  }
}

}  // namespace
}  // namespace phub::train

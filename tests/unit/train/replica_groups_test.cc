// Several replicas of a network in one worker.
#include "worker/train/replica_groups.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/tensors/safetensors.h"
#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "worker/train/group_threads.h"

namespace phub::train {
namespace {

TEST_CASE("Each group works on a thread of its own, time after time, and an error is told") {
  GroupThreads threads(3);
  std::vector<std::thread::id> first(3);
  std::vector<std::thread::id> second(3);
  for (auto* const ids : {&first, &second}) {
    REQUIRE(threads
                .run([&](std::uint32_t group) {
                  (*ids)[group] = std::this_thread::get_id();
                  return Status();
                })
                .ok());
  }
  CHECK(first == second);
  CHECK(first[0] == std::this_thread::get_id());
  CHECK(first[1] != first[2]);
  const Status status = threads.run([](std::uint32_t group) {
    return group == 1 ? Status() : Status(Code::kAborted, "group " + std::to_string(group));
  });
  CHECK(status.message() == "group 2");
}

TEST_CASE("Who waits for a group that has failed is told") {
  Progress progress;
  progress.pass();
  CHECK(progress.has_passed(1));
  GroupThreads threads(2);
  bool has_passed = true;
  REQUIRE(threads
              .run([&](std::uint32_t group) {
                if (group == 0) has_passed = progress.has_passed(2);
                if (group == 1) progress.give_up();
                return Status();
              })
              .ok());
  CHECK_FALSE(has_passed);
}

TEST_CASE("Groups make the steps of one replica but for rounding, the same ones each time") {
  const TemporaryDirectory directory;
  SessionOptions options = testing::small_session();
  for (const std::uint32_t groups : {1U, 2U, 4U}) {
    options.executor.groups = groups;
    for (const char* const name : {"a", "b"}) {
      options.checkpoint.path = directory.path / (name + std::to_string(groups));
      const auto result = testing::run(options);
      REQUIRE(result);
      CHECK(result->test_accuracy >= 0.0);
    }
    CHECK(directory.read("a" + std::to_string(groups)) ==
          directory.read("b" + std::to_string(groups)));
  }
  const auto one = read_safetensors(directory.path / "a1");
  for (const char* const name : {"a2", "a4"}) {
    const auto several = read_safetensors(directory.path / name);
    REQUIRE(several);
    for (const NamedTensor& tensor : one->tensors) {
      const NamedTensor* const other = several->find(tensor.name);
      REQUIRE(other != nullptr);
      double furthest = 0.0;
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        furthest = std::max(furthest, std::fabs(double{tensor.values[i]} - other->values[i]));
      }
      CHECK(furthest < 1e-3);
    }
  }
}

TEST_CASE("Groups that normalise batches resume where they were") {
  const TemporaryDirectory directory;
  SessionOptions options = testing::small_session();
  options.model = "resnet20";
  options.executor.groups = 2;
  options.checkpoint.path = directory.path / "whole";
  const auto whole = testing::run(options);
  REQUIRE(whole);
  options.checkpoint.path = directory.path / "half";
  REQUIRE(testing::run(options, RuleKind::kMomentum, 11));
  options.checkpoint.resume = options.checkpoint.path;
  options.checkpoint.path = directory.path / "joined";
  const auto joined = testing::run(options);
  REQUIRE(joined);
  CHECK(directory.read("joined") == directory.read("whole"));
  CHECK(joined->test_accuracy == whole->test_accuracy);
}

}  // namespace
}  // namespace phub::train

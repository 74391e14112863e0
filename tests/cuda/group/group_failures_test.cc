// GPUs of a group that fail, and collectives that never end.
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/group/group_rig.h"
#include "tests/cuda/networks.h"
#include "worker/nn/plugin.h"

namespace phub::nn::cuda {
namespace {

using Catch::Contains;
using testing::GroupRig;
using testing::require;

// Two steps and an evaluation, as far as they come.
Status run(GroupRig& rig) {
  for (unsigned step = 1; step <= 2; ++step) {
    std::vector<float> images(rig.group->input_elements(), 0.25F);
    const std::vector<Label> labels(rig.group->batch());
    PHUB_RETURN_IF_ERROR(rig.group->load(images, labels));
    PHUB_RETURN_IF_ERROR(rig.try_step());
    PHUB_RETURN_IF_ERROR(rig.group->forward(Mode::kInference, *rig.own));
    std::vector<float> output(rig.group->output_elements());
    PHUB_RETURN_IF_ERROR(rig.group->read_output(output));
    PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto buffers, rig.group->read_buffers());
  }
  return {};
}

TEST_CASE("A GPU that fails, whatever it was about to do, ends the group and is named") {
  std::size_t calls = 0;
  for (bool has_failed = true; has_failed; calls += 1 + calls / 8) {
    GroupRig rig(phub::nn::testing::blocks(),
                 {.gpus = 3, .runtime = {.seed = static_cast<unsigned>(calls) + 1}});
    require(rig.group->bind(rig.own->bindings()));
    rig.runtimes[1]->fail_after(calls);
    const Status status = run(rig);
    has_failed = !status.ok();
    if (!has_failed) continue;
    INFO("after " << calls << " calls: " << status.message());
    CHECK(status.code() == Code::kInternal);
    CHECK_THAT(status.message(),
               Contains("GPU 5") && Contains("an illegal memory access") && !Contains("GPU 4"));
    CHECK(rig.collectives->is_aborted());
    // From then on everything is refused, with what came first.
    CHECK(run(rig).message() == status.message());
    CHECK(rig.group->read_buffers().error().message() == status.message());
  }
  CHECK(calls > 200);
}

TEST_CASE("A collective that never ends is given up at the deadline, with those that hang in it") {
  const auto make = [](std::size_t sticks_at) {
    auto rig = std::make_unique<GroupRig>(
        testing::image_by_image(),
        testing::GroupOptions{.gpus = 2,
                              .collectives = {.sticks_at = sticks_at},
                              .parts = 2,
                              .timeout = std::chrono::milliseconds(sticks_at == 0 ? 60'000 : 400)});
    require(rig->group->bind(rig->own->bindings()));
    return rig;
  };
  const auto whole = make(0);
  require(run(*whole));
  const std::size_t all = whole->collectives->collectives();
  REQUIRE(all >= 8);
  for (const std::size_t number : {std::size_t{1}, all / 4, all / 2, 3 * all / 4, all - 1}) {
    const auto rig = make(number);
    const Status status = run(*rig);
    INFO("collective " << number << " of " << all << ": " << status.message());
    CHECK(status.code() == Code::kDeadlineExceeded);
    CHECK_THAT(status.message(), Contains("GPU 4, GPU 5") && Contains("timeout_ms"));
    CHECK(rig->collectives->is_aborted());
    CHECK(run(*rig).message() == status.message());
  }
}

TEST_CASE("Memory that begins where other memory does hides none of it") {
  testing::MemoryRanges ranges;
  const std::vector<std::byte> pages(4096);
  ranges.add(pages.data(), pages.size());
  ranges.add(pages.data(), 8);
  CHECK(ranges.cover(pages.data() + 8, 4088));
  ranges.remove(pages.data(), 8);
  CHECK(ranges.cover(pages.data(), 4096));
  ranges.remove(pages.data(), 4096);
  CHECK_FALSE(ranges.cover(pages.data(), 1));
}

TEST_CASE("GPUs whose steps are not the same are no group") {
  const Graph graph = phub::nn::testing::blocks();
  const auto machine = std::make_shared<testing::HostMachine>(1);
  std::vector<GpuRank> gpus;
  std::vector<testing::HostRuntime*> runtimes;
  for (const bool fuse : {true, false}) {
    auto runtime = std::make_unique<testing::HostRuntime>(testing::HostRuntime::Options{}, machine);
    runtimes.push_back(runtime.get());
    auto lowered = require(lower(graph, {.batch = 2, .fuse = fuse}));
    auto runner = std::make_unique<testing::HostRunner>(*runtime, std::move(lowered));
    gpus.push_back({testing::device_of(gpus.size()),
                    require(DevicePasses::create(graph, std::move(runtime), std::move(runner),
                                                 {.batch = 2}))});
  }
  auto collectives = std::make_unique<testing::HostCollectives>(
      runtimes, machine, testing::HostCollectives::Options{});
  const auto group = GpuGroup::create(std::move(gpus), std::move(collectives), {});
  REQUIRE_FALSE(group);
  CHECK(group.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(group.error().message(), Contains("train.devices: GPU 5") && Contains("one model"));
}

TEST_CASE("A collective that is refused ends the group") {
  for (const std::size_t number : {1U, 4U, 9U}) {
    GroupRig rig(testing::image_by_image(),
                 {.gpus = 2, .collectives = {.fails_at = number}, .parts = 2});
    require(rig.group->bind(rig.own->bindings()));
    const Status status = run(rig);
    CHECK_THAT(status.message(), Contains("GPU 1: the collective was refused"));
    CHECK(rig.collectives->is_aborted());
  }
}

TEST_CASE("A loss of a group that is refused ends backward before a gradient is told") {
  GroupRig rig(testing::image_by_image(), {.gpus = 2});
  require(rig.group->bind(rig.own->bindings()));
  rig.new_batch(1);
  rig.own->status = Status(Code::kAborted, "no");
  CHECK(rig.try_step().code() == Code::kAborted);
  CHECK(rig.own->told.empty());
  CHECK_FALSE(rig.collectives->is_aborted());
}

TEST_CASE("Devices that make no sense are refused with the field and the cure") {
  const auto refusal = [](std::vector<std::uint32_t> devices, std::uint32_t batch) {
    DeviceExecutorOptions options;
    options.devices = std::move(devices);
    options.batch = batch;
    return check_devices(options);
  };
  CHECK(refusal({}, 5).ok());
  CHECK(refusal({3, 1}, 6).ok());
  CHECK_THAT(refusal({0, 1, 0}, 6).message(), Contains("train.devices: 0 is listed twice"));
  CHECK_THAT(refusal({0, 1, 2}, 64).message(),
             Contains("train.batch: 64") && Contains("by 3 GPUs") && Contains("multiple"));
  CHECK(refusal({0, 1, 2}, 64).code() == Code::kInvalidArgument);
}

}  // namespace
}  // namespace phub::nn::cuda

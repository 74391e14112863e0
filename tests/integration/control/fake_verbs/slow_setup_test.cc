// A connection that takes long to set up, since a device pins its memory, keeps nobody else
// waiting: neither other jobs' workers nor who asks for counters. Nor does a job whose restored
// parameters are long in coming.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <future>
#include <thread>

#include "common/connect/data_connection.h"
#include "common/connect/verbs_ports.h"
#include "server/job/copy.h"
#include "server/plane/data_plane.h"
#include "tests/support/server/lone_plane.h"
#include "tests/support/transports/fake_verbs.h"

namespace phub {
namespace {

using testing::AnyMember;
using testing::LonePlane;

constexpr std::uint64_t kSlowJob = 1;
constexpr std::uint64_t kOtherJob = 2;

client::JoinInfo join(const server::DataPlane& plane, std::uint64_t job, std::uint32_t worker) {
  client::JoinInfo joined;
  joined.job_id = job;
  joined.epoch = 1;
  joined.worker_index = worker;
  joined.seat = worker;
  joined.host = "127.0.0.1";
  joined.tcp_port = plane.tcp_port();
  for (const server::CorePort& port : plane.verbs_ports()) {
    joined.rdma.push_back({port.device, port.link_layer, port.gid});
  }
  return joined;
}

client::DataTarget target_of(const client::JoinInfo& joined) {
  return {.joined = &joined, .timeout = std::chrono::seconds(60)};
}

}  // namespace

TEST_CASE("while a job's memory is pinned other jobs connect, begin, end and are looked at") {
  fake_verbs::reset();
  {
    AnyMember membership;
    server::DataPlaneOptions options;
    options.cores = 1;
    const auto plane = std::move(*server::DataPlane::create(options, membership));
    const auto plan = std::make_shared<const Plan>(
        std::move(*make_plan({.key_elements = {100'000}, .cores_per_server = {1}})));
    const auto layout_of = [&](std::uint64_t job) {
      server::JobLayout layout;
      layout.job_id = job;
      layout.workers = 8;
      layout.weight_decay = {0};
      layout.plan = plan;
      return layout;
    };
    REQUIRE(plane->create_job(layout_of(kSlowJob)).ok());

    // All of a job's workers come over verbs; the first registration at the server stays.
    std::promise<void> pinned;
    const std::shared_future<void> is_pinned = pinned.get_future().share();
    std::promise<void> began;
    std::once_flag once;
    std::vector<std::thread> workers;
    std::atomic<int> welcomed{0};
    std::vector<std::unique_ptr<SharedMemory>> memories;
    const auto ports = std::move(*client::VerbsPorts::create({}, std::nullopt));
    const client::JoinInfo first = join(*plane, kSlowJob, 0);
    const auto device = *ports->towards(first.rdma[0], 0);
    const auto memory = std::move(*SharedMemory::create("slow", 1 << 20));
    const auto parts =
        *ports->memory_on(device, {memory->data(), memory->size()}, {memory->data(), 4096});
    fake_verbs::behaviour().on_register = [&] {
      std::call_once(once, [&] { began.set_value(); });
      is_pinned.wait();
    };
    struct NoPlace final : transport::ReceiveBuffers, transport::Layout {
      std::byte* acquire(transport::PeerId, std::uint32_t, std::uint32_t) override {
        return nullptr;
      }
      void release(transport::PeerId, std::byte*) override {}
      std::uint64_t offset(transport::PeerId, const transport::Write&) const override { return 0; }
    } nowhere;
    const auto endpoint = std::move(*transport::VerbsEndpoint::create(device, 8, nowhere, nowhere));
    for (std::uint32_t index = 0; index < 8; ++index) {
      workers.emplace_back([&, index] {
        const client::JoinInfo joined = join(*plane, kSlowJob, index);
        auto connection = endpoint->connector().prepare(parts, 16);
        if (connection && client::open_verbs(target_of(joined), *connection).ok()) ++welcomed;
      });
    }
    began.get_future().wait();

    CHECK(plane->create_job(layout_of(kOtherJob)).ok());
    const client::JoinInfo other = join(*plane, kOtherJob, 0);
    CHECK(client::open_tcp(target_of(other)));
    CHECK(plane->job_counters(kSlowJob));
    CHECK(plane->job_counters(kOtherJob));
    CHECK(plane->core_counters().size() == 1);
    plane->remove_job(kOtherJob);
    CHECK(welcomed == 0);

    pinned.set_value();
    for (std::thread& worker : workers) worker.join();
    CHECK(welcomed == 8);
    plane->remove_job(kSlowJob);
    fake_verbs::behaviour().on_register = nullptr;
  }
  fake_verbs::reset();
}

namespace {

// Memory that nobody can read before it is released: who tries waits.
class HeldBack {
 public:
  explicit HeldBack(std::span<std::byte> memory) {
    held_ = memory;
    REQUIRE(::mprotect(held_.data(), held_.size(), PROT_NONE) == 0);
    struct sigaction wait {};
    wait.sa_sigaction = &on_touch;
    wait.sa_flags = SA_SIGINFO;
    REQUIRE(::sigaction(SIGSEGV, &wait, &before_) == 0);
  }
  ~HeldBack() {
    release();
    ::sigaction(SIGSEGV, &before_, nullptr);
  }
  HeldBack(const HeldBack&) = delete;
  HeldBack& operator=(const HeldBack&) = delete;

  static void wait_until_touched() {
    while (!is_touched_) ::sched_yield();
  }
  static void release() { is_released_ = true; }

 private:
  static void on_touch(int, siginfo_t* fault, void*) {
    const auto* const at = static_cast<const std::byte*>(fault->si_addr);
    if (at < held_.data() || at >= held_.data() + held_.size()) ::_exit(1);
    is_touched_ = true;
    while (!is_released_) ::sched_yield();
    ::mprotect(held_.data(), held_.size(), PROT_READ | PROT_WRITE);
  }

  static inline std::span<std::byte> held_;
  static inline std::atomic<bool> is_touched_{false};
  static inline std::atomic<bool> is_released_{false};
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("while a job's parameters are restored other jobs begin, connect and are looked at") {
  const LonePlane plane;
  const server::JobLayout layout = testing::layout_of(kOtherJob, {100'000});
  server::JobLayout restored = layout;
  restored.job_id = kSlowJob;
  const auto copy = std::move(*server::JobCopy::create(*layout.plan, 0, 0));
  copy->round = 1;
  restored.initial = copy;

  const HeldBack held({copy->parameters->data(), 100'000 * sizeof(float)});
  Status made;
  std::thread restoring([&] { made = plane->create_job(restored); });
  HeldBack::wait_until_touched();
  CHECK(plane->create_job(layout).ok());
  const client::JoinInfo other = join(*plane, kOtherJob, 0);
  CHECK(client::open_tcp(target_of(other)));
  CHECK(plane->job_counters(kOtherJob));
  CHECK_FALSE(plane->job_counters(kSlowJob));
  plane->remove_job(kOtherJob);
  HeldBack::release();
  restoring.join();
  CHECK(made.ok());
  CHECK(plane->job_counters(kSlowJob));
  plane->remove_job(kSlowJob);
}

TEST_CASE("copies of a job are made in the order in which they were asked for") {
  const LonePlane plane;
  server::JobLayout layout = testing::layout_of(kOtherJob, {1000});
  layout.rule = RuleKind::kMomentum;
  REQUIRE(plane->create_job(layout).ok());
  // Of a round that never comes. Who has its turn looks more often than who waits for it.
  const auto ask = [&] {
    return plane->copy_job(kOtherJob, {.round = 1, .timeout = std::chrono::minutes(10)});
  };
  const auto has_turn = [](server::CopyUnderWay& copy) {
    const auto copied = copy.step();
    REQUIRE(copied);
    CHECK_FALSE(copied->has_value());
    return copy.rest() < std::chrono::milliseconds(20);
  };
  auto first = ask(), second = ask(), third = ask();
  CHECK(has_turn(*first));
  CHECK_FALSE(has_turn(*second));
  CHECK_FALSE(has_turn(*third));
  first.reset();
  CHECK_FALSE(has_turn(*third));
  CHECK(has_turn(*second));
  second.reset();
  CHECK(has_turn(*third));
}

}  // namespace phub

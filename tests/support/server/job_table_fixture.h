// A job table on a fake data plane, with a clock that only the test moves.
#pragma once

#include <spdlog/spdlog.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/job/rack_links.h"
#include "server/jobs/table.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/job_replies.h"
#include "tests/support/server/tenants_in_memory.h"

namespace phub::testing {

using namespace server;  // NOLINT(google-build-using-namespace): what the fixture is about
using std::chrono::milliseconds;

inline constexpr milliseconds kLong{20'000};
inline constexpr std::uint32_t kCores = 2;

inline JobSpec spec_of(std::uint32_t workers, const std::string& name = "demo") {
  return {.name = name,
          .workers = workers,
          .rule = RuleKind::kMean,
          .keys = {{.name = "a", .elements = 1000}, {.name = "b", .elements = 50'000}}};
}

// Other racks are there at once.
struct ReadyRacks final : RackLinks {
  Status check_racks(const std::vector<RackSpec>&) const override { return {}; }
  Status check_place(std::uint32_t, std::size_t) const override { return {}; }
  Status open(const LinkedRack&) override { return {}; }
  Result<std::unique_ptr<RackSnapshots>> snapshot(std::uint64_t, std::uint64_t,
                                                  std::chrono::milliseconds) override {
    return Status(Code::kFailedPrecondition, "no links");
  }
  void complete(std::uint64_t) override {}
  void know_end(std::uint64_t, std::uint64_t) override {}
  void diagnose(std::uint64_t, const std::string&, const std::string&) override {}
  void close(std::uint64_t, const std::string&) override {}
};

struct JobTableFixture {
  std::atomic<std::int64_t> time_ms{1'000'000};
  FakeDataPlane data_plane{kCores};
  ReadyRacks racks;
  JobTable table;
  explicit JobTableFixture(const TenantDirectory* tenants = nullptr, const JobStore& store = {},
                           const std::string& rack = {},
                           std::function<void(const JobView&)> before_drain_ends = {})
      : table({.finished_jobs_max = 3,
               .live_jobs_max = 5,
               .tenants = tenants,
               .store = store,
               .rack = rack,
               .links = &racks,
               .before_drain_ends = std::move(before_drain_ends),
               .clock = [this] { return TimePoint(milliseconds(time_ms.load())); }}) {
    spdlog::set_level(spdlog::level::err);
    table.attach(data_plane);
  }

  Result<Identity> join(const JobSpec& spec, std::int32_t index = -1,
                        const std::string& tenant = std::string(kDefaultTenant)) {
    return table.members.join({.spec = std::make_shared<const JobSpec>(spec),
                               .tenant = tenant,
                               .worker_index = index,
                               .host = "host" + std::to_string(index),
                               .process_id = 77});
  }
  static std::uint64_t hash_of(const JobSpec& spec, const std::vector<std::uint32_t>& cores,
                               const std::vector<std::uint64_t>& core_load_bytes = {}) {
    return make_plan(plan_input(spec, cores, core_load_bytes)).value().hash;
  }
  Status ready(const Identity& identity, const JobSpec& spec) {
    const auto load = table.views.core_load_bytes(identity.job_id);
    return ready_now(table, identity, {.cores_per_server = {kCores}, .core_load_bytes = load},
                     hash_of(spec, {kCores}, load));
  }
  std::future<Status> start(const Identity& identity, milliseconds timeout = kLong) {
    return start_later(table, identity, timeout);
  }
  void connect(const Identity& identity) {
    for (std::uint32_t core = 0; core < kCores; ++core) {
      table.members.on_connected(identity.job_id, identity.worker, core, "shm");
    }
  }
  // A job of `workers` that runs.
  std::vector<Identity> running(std::uint32_t workers, const std::string& name = "demo") {
    const JobSpec spec = spec_of(workers, name);
    std::vector<Identity> members;
    for (std::uint32_t i = 0; i < workers; ++i) {
      members.push_back(join(spec).value());
      REQUIRE(ready(members.back(), spec).ok());
      connect(members.back());
    }
    REQUIRE(state(name) == JobState::kRunning);
    return members;
  }
  JobState state(const std::string& name = "demo") {
    return table.views.inspect(name, 0).value().state;
  }
  std::string reason(const std::string& name = "demo") {
    return table.views.inspect(name, 0).value().reason;
  }
};

}  // namespace phub::testing

// A job table whose links to other racks are recorded. For tests.
#pragma once
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/job/rack_links.h"
#include "server/jobs/table.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {

using Words = std::vector<std::string>;

// What the job table asked for, in order.
struct RecordedLinks final : RackLinks {
  Status check_racks(const std::vector<RackSpec>& racks) const override {
    return racks.back().name == "zz" ? Status(Code::kInvalidArgument, "no rack zz") : Status();
  }
  Status check_place(std::uint32_t server_index, std::size_t servers) const override {
    return server_index < servers ? place : Status(Code::kInternal, "no place at all");
  }
  Status open(const LinkedRack& job) override {
    asked.push_back("open " + job.spec->name);
    return std::exchange(opened, Status());
  }
  Result<std::unique_ptr<RackSnapshots>> snapshot(std::uint64_t, std::uint64_t,
                                                  std::chrono::milliseconds) override {
    return Status(Code::kFailedPrecondition, "no links");
  }
  void complete(std::uint64_t /*job_id*/) override { asked.push_back("complete"); }
  void know_end(std::uint64_t /*job_id*/, std::uint64_t last_step) override {
    asked.push_back("know end " + std::to_string(last_step));
  }
  void diagnose(std::uint64_t /*job_id*/, const std::string& rack,
                const std::string& suspicion) override {
    asked.push_back("diagnose " + rack + ": " + suspicion);
  }
  void close(std::uint64_t /*job_id*/, const std::string& reason) override {
    asked.push_back("close " + reason);
  }
  Words asked;
  Status place;   // what check_place returns
  Status opened;  // what the next open returns
};

// The server of rack b of a job of racks a, b and c.
struct RackFixture {
  RecordedLinks links;
  FakeDataPlane data_plane{kCores};
  JobTable table;
  JobSpec spec = spec_of(4);
  explicit RackFixture(const TenantDirectory* tenants = nullptr)
      : table({.tenants = tenants, .rack = "b", .links = &links}) {
    spdlog::set_level(spdlog::level::off);
    spec.racks = {{"a", 1}, {"b", 2}, {"c", 1}};
    table.attach(data_plane);
  }

  Result<Identity> join(const std::string& rack, std::uint32_t process_id = 7,
                        const std::string& tenant = std::string(kDefaultTenant)) {
    return table.members.join({.spec = std::make_shared<const JobSpec>(spec),
                               .tenant = tenant,
                               .host = "host",
                               .process_id = process_id,
                               .rack = rack});
  }
  // A rack says its own cores.
  Status ready(const Identity& identity, const std::vector<std::uint32_t>& cores = {kCores}) {
    const Plan plan = make_plan(plan_input(spec, cores)).value();
    const bool is_rack = identity.worker >= spec.racks[1].workers;
    return ready_now(table, identity, {.cores_per_server = cores},
                     is_rack ? plan.racks_hash : plan.hash);
  }
  void connect(const Identity& identity) {
    REQUIRE(ready(identity).ok());
    for (std::uint32_t core = 0; core < kCores; ++core) {
      table.members.on_connected(identity.job_id, identity.worker, core, "tcp");
    }
  }
  JobState state() { return table.views.inspect("demo", 0).value().state; }
  std::string reason() { return table.views.inspect("demo", 0).value().reason; }

  // The workers of this rack, and the racks a and c, of a job that runs.
  std::vector<Identity> running() { return running_with({"a", "c"}); }
  // The workers of this rack, 1 and 2, and rack a, of a job that runs and goes on without one.
  std::vector<Identity> going_on() {
    spec.workers = 3;
    spec.rule = RuleKind::kSgd;
    spec.deterministic = false;
    spec.racks = {{"a", 1}, {"b", 2}};
    spec.rack_local = {.steps = 2, .quorum = 1};
    return running_with({"a"});
  }

 private:
  std::vector<Identity> running_with(const Words& racks) {
    std::vector<Identity> members = {join("").value(), join("").value()};
    for (const std::string& rack : racks) members.push_back(join(rack).value());
    for (const Identity& member : members) connect(member);
    table.members.on_linked(members[0].job_id);
    for (std::size_t i = 2; i < members.size(); ++i) {
      REQUIRE(table.members.heartbeat(members[i], /*rack_is_complete=*/true));
    }
    REQUIRE(state() == JobState::kRunning);
    return members;
  }
};

}  // namespace phub::testing

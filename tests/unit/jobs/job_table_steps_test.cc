// What workers report of their steps is kept, the last report of each.
#include "server/rpc/messages/messages.h"
#include "tests/support/server/job_table_fixture.h"
#include "tests/support/server/racks/rack_fixture.h"

namespace phub::testing {
namespace {

StepWaits report_of(std::uint64_t input_ns) {
  return {.steps = 10, .step_ns = 1000, .input_ns = input_ns, .exchange_ns = 100};
}

TEST_CASE("the last report of each worker is kept, and a worker without one does not say") {
  JobTableFixture f;
  const auto members = f.running(3);
  const auto said = [&](std::size_t worker) {
    return f.table.views.inspect("demo", 0)->members[worker].step_waits;
  };
  for (std::size_t worker = 0; worker < 3; ++worker) CHECK_FALSE(said(worker));
  REQUIRE(f.table.members.heartbeat(members[0], false, {}, report_of(500)));
  REQUIRE(f.table.members.heartbeat(members[1], false, {}, report_of(50)));
  REQUIRE(f.table.members.heartbeat(members[2]));
  CHECK(said(0) == report_of(500));
  CHECK(said(1) == report_of(50));
  CHECK_FALSE(said(2));
  REQUIRE(f.table.members.heartbeat(members[0], false, {}, report_of(700)));
  CHECK(said(0) == report_of(700));
  REQUIRE(f.table.members.heartbeat(members[0]));  // it has nothing new to say
  CHECK(said(0) == report_of(700));

  control::JobInfo message;
  fill(*f.table.views.inspect("demo", 0), Keys::kLeftOut, message);
  CHECK(step_waits_from(message.members(0).step_waits()).value() == report_of(700));
  CHECK_FALSE(message.members(2).has_step_waits());
}

TEST_CASE("another member's report changes nothing, and neither does one with a wrong secret") {
  JobTableFixture f;
  const auto members = f.running(2);
  Identity wrong = members[0];
  wrong.secret[0] ^= 1;
  CHECK_FALSE(f.table.members.heartbeat(wrong, false, {}, report_of(500)));
  REQUIRE(f.table.members.heartbeat(members[1], false, {}, report_of(50)));
  CHECK_FALSE(f.table.views.inspect("demo", 0)->members[0].step_waits);
}

}  // namespace
}  // namespace phub::testing

// A job that watches its values: who pushed what is not finite is told, and ends the job where it
// is to.
#include <spdlog/sinks/ostream_sink.h>

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <sstream>

#include "common/job/check.h"
#include "server/rpc/messages/messages.h"
#include "tests/support/server/carried_spec.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct WatchedFixture : JobTableFixture {
  explicit WatchedFixture(WatchValues watch, std::uint32_t workers = 3,
                          LossScaling scaling = LossScaling::kNone) {
    JobSpec spec = spec_of(workers);
    spec.watch_values = watch;
    if (scaling != LossScaling::kNone) {
      spec.rule = RuleKind::kSgd;
      spec.loss_scale.kind = scaling;
    }
    for (std::uint32_t i = 0; i < workers; ++i) {
      const Identity member = join(spec, static_cast<std::int32_t>(i)).value();
      REQUIRE(ready(member, spec).ok());
      connect(member);
    }
    REQUIRE(state() == JobState::kRunning);
    data_plane.values.resize(workers);
  }

  void find(std::uint32_t worker, std::uint64_t round, float value = kNan) {
    WorkerValues& values = data_plane.values[worker];
    values.last = {.round = round, .key = 1, .element = 7, .value = value};
    if (values.pushes++ == 0) values.first = values.last;
  }

  // What a look at the findings logs.
  std::string reaped() {
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("watched", sink));
    table.reap();
    spdlog::set_default_logger(before);
    return text.str();
  }
};

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("who pushed what is not finite is logged once, with key, element and round") {
  WatchedFixture f(WatchValues::kName);
  CHECK_THAT(f.reaped(), !Contains("not_finite"));
  f.find(1, 17);
  const std::string line = f.reaped();
  CHECK_THAT(line, Contains("event=not_finite job=\"demo\"") && Contains("worker 1 (host host1") &&
                       Contains("value=NaN key=\"b\" element=7 round=17"));
  f.find(1, 18);
  f.find(2, 18, -std::numeric_limits<float>::infinity());
  const std::string next = f.reaped();
  CHECK(lines_with(next, "event=not_finite") == 1);
  CHECK_THAT(next, Contains("worker 2") && Contains("value=-inf") && !Contains("worker 1"));
  CHECK(f.state() == JobState::kRunning);
}

TEST_CASE("a job has sixteen lines at most, however many workers push what is not finite") {
  WatchedFixture f(WatchValues::kName, 20);
  for (std::uint32_t worker = 0; worker < 20; ++worker) f.find(worker, 3);
  const std::string text = f.reaped();
  CHECK(lines_with(text, "event=not_finite") == 16);
  CHECK(lines_with(text, "others are counted only") == 1);
  CHECK(lines_with(f.reaped(), "event=not_finite") == 0);
}

TEST_CASE("a job that is to fail ends with the culprit of the earliest round as its reason") {
  WatchedFixture f(WatchValues::kFail);
  f.table.reap();
  CHECK(f.state() == JobState::kRunning);
  f.find(0, 9);
  f.find(2, 8, std::numeric_limits<float>::infinity());
  CHECK_THAT(f.reaped(), Contains("event=not_finite"));
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("worker 2 (host host2, pid 77) pushed +inf in key \"b\", element "
                                  "7, in round 8") &&
                             Contains("watch_values is fail") && Contains("watch_values name"));
}

TEST_CASE("what is of the initial values is said so") {
  WatchedFixture f(WatchValues::kFail);
  f.find(0, 0);
  f.table.reap();
  CHECK_THAT(f.reason(), Contains("worker 0") && Contains("of the initial values"));
}

TEST_CASE("where workers vote nothing is logged: overflows are how the scale is found") {
  WatchedFixture f(WatchValues::kName, 2, LossScaling::kVoted);
  f.find(1, 4);
  f.data_plane.values[1].overflow_votes = 1;
  CHECK_THAT(f.reaped(), !Contains("not_finite"));
  CHECK(f.state() == JobState::kRunning);
}

TEST_CASE("members' messages have their findings, and only theirs") {
  WatchedFixture f(WatchValues::kName);
  f.find(1, 17);
  f.find(1, 20);
  f.data_plane.values[2].overflow_votes = 5;
  control::JobInfo job;
  server::fill(f.table.views.inspect("demo", 0).value(), server::Keys::kIncluded, job);
  CHECK_FALSE(job.members(0).has_values());
  const control::WorkerValues& values = job.members(1).values();
  CHECK(values.pushes() == 2);
  CHECK(values.first().key() == "b");
  CHECK(values.first().element() == 7);
  CHECK(values.first().round() == 17);
  CHECK(values.first().value() == "NaN");
  CHECK(values.last().round() == 20);
  CHECK(job.members(2).values().overflow_votes() == 5);
  CHECK_FALSE(job.members(2).values().has_first());
}

TEST_CASE(
    "watch_values crosses the control plane, all workers have the same, and votes need name") {
  for (const WatchValues watch : {WatchValues::kOff, WatchValues::kName, WatchValues::kFail}) {
    JobSpec spec = spec_of(2);
    spec.watch_values = watch;
    const auto read = carried(spec);
    REQUIRE(read);
    CHECK(read->watch_values == watch);
    CHECK(validate(spec).ok());
    CHECK(compare(spec, *read).ok());
    JobSpec other = spec;
    other.watch_values = watch == WatchValues::kOff ? WatchValues::kName : WatchValues::kOff;
    CHECK_THAT(compare(spec, other).message(),
               Contains("watch_values is " + std::string(name_of(watch)) + " in the job"));
    spec.rule = RuleKind::kSgd;
    spec.loss_scale.kind = LossScaling::kVoted;
    const std::string refusal = validate(spec).message();
    CHECK(refusal.empty() == (watch != WatchValues::kFail));
    if (watch == WatchValues::kFail) {
      CHECK_THAT(refusal, Contains("watch_values: fail") && Contains("loss_scaling: voted") &&
                              Contains("choose name"));
    }
  }
}

}  // namespace
}  // namespace phub::testing

// What Prometheus is told: names, labels and values from known counters.
#include <prometheus/check_names.h>
#include <prometheus/metric_family.h>

#include <set>

#include "server/metrics/collector.h"
#include "tests/support/server/job_table_fixture.h"
#include "tests/support/server/racks/rack_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

std::string text_of(JobTableFixture& fixture) {
  return MetricsCollector{fixture.table, fixture.data_plane}.text();
}

}  // namespace

TEST_CASE("jobs, cores, ports and drops are told with their labels") {
  JobTableFixture f;
  f.data_plane.statuses = {{.identity = {.device = "mlx5_0", .port = 2, .gid = {}},
                            .state = "active",
                            .counters = {{"out_of_sequence", 5}}}};
  f.running(2, "resnet");
  REQUIRE(f.join(spec_of(3, "early")));
  const std::string text = text_of(f);
  for (const char* line :
       {"phub_jobs 2\n",
        "phub_draining 0\n",
        "phub_job_running{phub_job=\"resnet\",tenant=\"default\"} 1\n",
        "phub_job_running{phub_job=\"early\",tenant=\"default\"} 0\n",
        "phub_job_workers{phub_job=\"early\",tenant=\"default\"} 3\n",
        "phub_job_members{phub_job=\"early\",tenant=\"default\"} 1\n",
        "phub_job_rounds_total{phub_job=\"resnet\",tenant=\"default\"} 5\n",
        "phub_job_received_bytes_total{phub_job=\"resnet\",tenant=\"default\"} 1000\n",
        "phub_job_sent_bytes_total{phub_job=\"resnet\",tenant=\"default\"} 2000\n",
        "phub_job_staging_bytes{phub_job=\"resnet\",tenant=\"default\"} 30\n",
        "phub_core_chunks_completed_total{core=\"1\"} 7\n",
        "phub_core_sleeps_total{core=\"0\"} 3\n",
        "phub_rdma_port_up{device=\"mlx5_0\",port=\"2\"} 1\n",
        "counter=\"out_of_sequence\"} 5\n",
        "phub_job_queued_pushes{phub_job=\"resnet\",tenant=\"default\"} 3\n",
        "phub_core_queued_pushes{core=\"0\"} 3\n",
        "phub_core_job_busy_seconds_total{core=\"0\",phub_job=\"resnet\",tenant=\"default\"} 1.5\n",
        "phub_tenant_jobs{tenant=\"default\"} 2\n",
        "phub_tenant_members{tenant=\"default\"} 3\n",
        "phub_drops_total{cause=\"wrong secret\"} 2\n"}) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("pushes that are not finite are counted of each worker, where values are watched") {
  JobTableFixture f;
  f.data_plane.values = {{}, {.pushes = 3, .first = {}, .last = {}, .overflow_votes = 2}};
  f.running(2, "blind");
  JobSpec spec = spec_of(2, "watched");
  spec.watch_values = WatchValues::kName;
  REQUIRE(f.join(spec, 0));
  REQUIRE(f.join(spec, 1));
  const std::string text = text_of(f);
  CHECK_THAT(text, !Contains("not_finite_total{phub_job=\"blind\""));
  CHECK_THAT(text, Contains("phub_member_pushes_not_finite_total{phub_job=\"watched\","
                            "tenant=\"default\",worker=\"0\""));
}

TEST_CASE("pushes that had not their checksum are counted of each worker, where they have one") {
  JobTableFixture f;
  f.data_plane.corruption = {{}, {.pushes = 3, .round = 5, .key = 0}};
  f.running(2, "trusting");
  JobSpec spec = spec_of(2, "checked");
  spec.checksums = true;
  REQUIRE(f.join(spec, 0));
  REQUIRE(f.join(spec, 1));
  const std::string text = text_of(f);
  CHECK_THAT(text, !Contains("corrupt_total{phub_job=\"trusting\""));
  CHECK_THAT(text, Contains("phub_member_pushes_corrupt_total{phub_job=\"checked\","
                            "tenant=\"default\",worker=\"0\""));
}

// Of rack b, for twelve seconds without its etcd.
struct LonelyDirectory final : server::Directory {
  void announce(const std::string&) override {}
  std::vector<server::RackEntry> racks() const override {
    return {{"a", {"h:1"}}, {"b", {"h:2", "h:3"}}};
  }
  bool may_grow() const override { return true; }
  void on_change(std::function<void()>) override {}
  server::DirectoryStatus status() const override { return told; }
  std::string own_rack() const override { return "b"; }
  std::string own_address() const override { return "h:2"; }
  server::DirectoryStatus told = {.source = "etcd",
                                  .trouble = "is it running?",
                                  .troubled_for = std::chrono::milliseconds(12'500),
                                  .keys_left_out = 7};
};

TEST_CASE("a directory that may be old is told to who sees the whole server") {
  JobTableFixture f;
  LonelyDirectory directory;
  MetricsCollector metrics{f.table, f.data_plane};
  CHECK_THAT(metrics.text(), !Contains("phub_directory"));
  metrics.directory = &directory;
  for (const char* line :
       {"phub_directory_trouble_seconds 12.5\n", "phub_directory_keys_left_out 7\n",
        "phub_directory_racks 2\n", "phub_directory_own_servers{rack=\"b\"} 2\n"}) {
    CHECK_THAT(metrics.text(), Contains(line));
  }
  CHECK_THAT(metrics.text("red"), !Contains("phub_directory"));
  directory.told.trouble = "";
  CHECK_THAT(metrics.text(), Contains("phub_directory_trouble_seconds 0\n"));
}

TEST_CASE("members are told with host and transport, what they moved and how late they are") {
  JobTableFixture f;
  // Two rounds of a millisecond; worker 1 is 200 us later than worker 0.
  server::CoreRounds rounds{.core = 0, .records = {}};
  for (std::uint64_t round = 0; round < 3; ++round) {
    const std::uint64_t start = 1'000'000 * round;
    rounds.records.push_back({.round = round,
                              .first_push = start,
                              .complete = start + 600'000,
                              .replied = start + 700'000,
                              .work = 50'000,
                              .workers = {{start, start + 300'000}, {start, start + 500'000}}});
  }
  f.data_plane.rounds = {rounds};
  f.running(2, "resnet");
  const std::string text = text_of(f);
  CHECK_THAT(
      text, Contains("phub_member_pushes_total{phub_job=\"resnet\",tenant=\"default\",worker=\"1\","
                     "host=\"") &&
                Contains("} 12\n"));
  for (const char* line :
       {"phub_job_round_part_seconds{phub_job=\"resnet\",tenant=\"default\",part=\"compute\"} "
        "0.0003",
        "phub_job_round_seconds{phub_job=\"resnet\"", "phub_member_last_share{phub_job=\"resnet\"",
        "worker=\"1\",host=\"host-1\",transport=\"shm\"} 0.0002"}) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("where a worker's steps go is told of each worker that says so") {
  JobTableFixture f;
  const auto members = f.running(2, "resnet");
  REQUIRE(f.table.members.heartbeat(members[1], false, {},
                                    StepWaits{.steps = 4,
                                              .step_ns = 2'000'000'000,
                                              .input_ns = 500'000'000,
                                              .exchange_ns = 1'000'000'000}));
  const std::string text = text_of(f);
  const std::string labels =
      "{phub_job=\"resnet\",tenant=\"default\",worker=\"1\",host=\"host-1\",transport=\"shm\"";
  for (const std::string& line : {"phub_member_step_seconds" + labels + "} 0.5\n",
                                  "phub_member_step_share" + labels + ",of=\"input\"} 0.25\n",
                                  "phub_member_step_share" + labels + ",of=\"exchange\"} 0.5\n",
                                  "phub_member_step_share" + labels + ",of=\"compute\"} 0.25\n"}) {
    CHECK_THAT(text, Contains(line));
  }
  CHECK_THAT(
      text,
      !Contains("phub_member_step_share{phub_job=\"resnet\",tenant=\"default\",worker=\"0\""));
}

TEST_CASE("latencies are told as cumulative histograms in seconds") {
  JobTableFixture f;
  f.running(1, "resnet");
  const std::string text = text_of(f);
  const std::string name = "phub_job_push_to_reply_seconds";
  const std::string labels = "phub_job=\"resnet\",tenant=\"default\"";
  for (const std::string& line :
       {name + "_count{" + labels + "} 6\n", name + "_sum{" + labels + "} 10.5\n",
        name + "_bucket{" + labels + ",le=\"1e-06\"} 1\n",
        name + "_bucket{" + labels + ",le=\"0.000128\"} 4\n",
        name + "_bucket{" + labels + ",le=\"8.388608\"} 4\n",
        name + "_bucket{" + labels + ",le=\"+Inf\"} 6\n",
        std::string("phub_job_wait_for_slowest_seconds_count{") + labels + "} 0\n"}) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("a tenant is told of its own jobs and how busy the cores are, of others nothing") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {}));
  REQUIRE(tenants.create("blue", {}));
  JobTableFixture f(&tenants);
  f.data_plane.statuses = {{.identity = {.device = "mlx5_0", .port = 2, .gid = {}},
                            .state = "active",
                            .counters = {{"out_of_sequence", 5}}}};
  for (const char* const tenant : {"red", "blue"}) {
    const JobSpec spec = spec_of(1, std::string("job-of-") + tenant);
    const Identity member = f.join(spec, -1, tenant).value();
    REQUIRE(f.ready(member, spec).ok());
    f.connect(member);
  }
  const std::string text = MetricsCollector{f.table, f.data_plane}.text("red");
  for (const char* line :
       {"phub_job_running{phub_job=\"job-of-red\",tenant=\"red\"} 1\n",
        "phub_core_job_busy_seconds_total{core=\"0\",phub_job=\"job-of-red\",tenant=\"red\"} 1.5\n",
        "phub_core_busy_seconds_total{core=\"1\"}", "phub_tenant_jobs{tenant=\"red\"} 1\n"}) {
    CHECK_THAT(text, Contains(line));
  }
  for (const char* others : {"blue", "phub_core_chunks", "phub_core_queued",
                             "phub_core_connections", "phub_drops", "phub_rdma", "phub_jobs "}) {
    CHECK_THAT(text, !Contains(others));
  }
}

TEST_CASE("a job that has ended leaves no series behind") {
  JobTableFixture f;
  f.running(1, "short");
  CHECK_THAT(text_of(f), Contains("\"short\""));
  REQUIRE(f.table.life.close("short").ok());
  CHECK_THAT(text_of(f), !Contains("\"short\"") && Contains("phub_core_sleeps_total"));
}

TEST_CASE(
    "names and labels are Prometheus's, a counter's ends with _total, and each is told once") {
  JobTableFixture f;
  f.running(1);
  const MetricsCollector collector{f.table, f.data_plane};
  std::set<std::string> names;
  for (const prometheus::MetricFamily& family : collector.families()) {
    INFO(family.name);
    CHECK(names.insert(family.name).second);
    CHECK(prometheus::CheckMetricName(family.name));
    CHECK_FALSE(family.help.empty());
    const bool is_counter = family.type == prometheus::MetricType::Counter;
    CHECK(is_counter ==
          (family.name.size() > 6 && family.name.rfind("_total") == family.name.size() - 6));
  }
}

TEST_CASE("what became of connections to the control port is counted") {
  JobTableFixture f;
  const MetricsCollector collector{
      .table = f.table, .data_plane = f.data_plane, .control_door = [] {
        return ControlDoorCounters{
            .handed_over = 9, .turned_out = 5, .crowded_out = 2, .shortages = 1};
      }};
  for (const char* line : {"phub_control_connections_total{outcome=\"served\"} 9",
                           "phub_control_connections_total{outcome=\"turned out\"} 3",
                           "phub_control_connections_total{outcome=\"crowded out\"} 2",
                           "phub_control_descriptor_shortages_total 1"}) {
    CHECK_THAT(collector.text(), Catch::Contains(line));
  }
}

TEST_CASE("of a job over racks this rack's workers are told, and each link to another rack") {
  JobTableFixture f(nullptr, {}, "b");
  f.data_plane.racks = {{.above = {.bytes_received = 10, .bytes_sent = 20},
                         .below = {.bytes_received = 30, .bytes_sent = 40}},
                        {}};
  server::CoreRounds rounds{.core = 0, .records = {}};
  for (std::uint64_t round = 0; round < 3; ++round) {
    const std::uint64_t start = 1'000'000 * (round + 1);
    rounds.records.push_back({.round = round,
                              .first_push = start,
                              .complete = start + 700'000,
                              .replied = start + 800'000,
                              .work = 50'000,
                              .workers = {{start, start + 300'000}, {start, start + 300'000}},
                              .racks = {{start + 400'000, start + 600'000}, {}}});
  }
  f.data_plane.rounds = {rounds};
  JobSpec spec = spec_of(5, "wide");
  spec.racks = {{"a", 3}, {"b", 2}};
  REQUIRE(f.ready(f.join(spec).value(), spec).ok());
  const std::string text = text_of(f);
  const std::string labels = "{phub_job=\"wide\",tenant=\"default\"";
  for (const std::string& line :
       {"phub_job_workers" + labels + "} 2\n", "phub_job_members" + labels + "} 1\n",
        "phub_job_rack_sums_up_bytes_total" + labels + ",rack=\"a\"} 20\n",
        "phub_job_rack_replies_from_above_bytes_total" + labels + ",rack=\"a\"} 10\n",
        "phub_job_rack_sums_from_below_bytes_total" + labels + ",rack=\"a\"} 30\n",
        "phub_job_rack_replies_down_bytes_total" + labels + ",rack=\"a\"} 40\n",
        "phub_job_rack_last_share" + labels + ",rack=\"a\"} 1\n",
        "phub_job_rack_late_seconds" + labels + ",rack=\"a\"} 0.0001\n",
        "phub_job_rack_arrival_seconds" + labels + ",rack=\"a\"} 0.0002\n",
        "phub_job_round_part_seconds" + labels + ",part=\"racks\"} 0.0003\n",
        "phub_member_pushes_total" + labels + ",worker=\"3\",host="}) {
    CHECK_THAT(text, Contains(line));
  }
  CHECK_THAT(text, !Contains("rack=\"b\""));
}

TEST_CASE("of a job whose racks go on its outer steps are told, and how many racks were lost") {
  RackFixture f;
  f.spec.rounds = {.quorum = 1};
  const auto members = f.going_on();
  const MetricsCollector collector{f.table, f.data_plane};
  const std::string labels = "{phub_job=\"demo\",tenant=\"default\"} ";
  CHECK_THAT(collector.text(), Contains("phub_job_racks_lost" + labels + "0\n"));
  CHECK_THAT(collector.text(), Contains("phub_job_outer_steps_total" + labels + "2\n"));
  f.table.members.on_rack_lost(members[0].job_id, "a", "it did not reply");
  CHECK_THAT(collector.text(), Contains("phub_job_racks_lost" + labels + "1\n"));
  CHECK_THAT(collector.text(), Contains("phub_job_workers_lost" + labels + "0\n"));
}

}  // namespace phub::testing

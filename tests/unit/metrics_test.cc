// What Prometheus is told: names, labels and values from known counters.
#include <prometheus/check_names.h>
#include <prometheus/metric_family.h>

#include <set>

#include "server/metrics/collector.h"
#include "tests/support/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

std::string text_of(JobTableFixture& fixture) {
  return MetricsCollector(fixture.table, fixture.data_plane).text();
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
       {"phub_jobs 2\n", "phub_draining 0\n", "phub_job_running{job=\"resnet\"} 1\n",
        "phub_job_running{job=\"early\"} 0\n", "phub_job_workers{job=\"early\"} 3\n",
        "phub_job_members{job=\"early\"} 1\n", "phub_job_rounds_total{job=\"resnet\"} 5\n",
        "phub_job_received_bytes_total{job=\"resnet\"} 1000\n",
        "phub_job_sent_bytes_total{job=\"resnet\"} 2000\n",
        "phub_job_staging_bytes{job=\"resnet\"} 30\n",
        "phub_core_chunks_completed_total{core=\"1\"} 7\n",
        "phub_core_sleeps_total{core=\"0\"} 3\n",
        "phub_rdma_port_up{device=\"mlx5_0\",port=\"2\"} 1\n", "counter=\"out_of_sequence\"} 5\n",
        "phub_drops_total{cause=\"wrong secret\"} 2\n"}) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("a job that has ended leaves no series behind") {
  JobTableFixture f;
  f.running(1, "short");
  CHECK_THAT(text_of(f), Contains("\"short\""));
  REQUIRE(f.table.close("short").ok());
  CHECK_THAT(text_of(f), !Contains("\"short\"") && Contains("phub_core_sleeps_total"));
}

TEST_CASE(
    "names and labels are Prometheus's, a counter's ends with _total, and each is told once") {
  JobTableFixture f;
  f.running(1);
  const MetricsCollector collector(f.table, f.data_plane);
  std::set<std::string> names;
  for (const prometheus::MetricFamily& family : collector.Collect()) {
    INFO(family.name);
    CHECK(names.insert(family.name).second);
    CHECK(prometheus::CheckMetricName(family.name));
    CHECK_FALSE(family.help.empty());
    const bool is_counter = family.type == prometheus::MetricType::Counter;
    CHECK(is_counter ==
          (family.name.size() > 6 && family.name.rfind("_total") == family.name.size() - 6));
  }
}

}  // namespace phub::testing

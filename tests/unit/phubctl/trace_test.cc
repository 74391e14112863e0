// The Chrome trace and the look of `top`, from made-up replies.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

constexpr std::uint64_t kOrigin = 5'000'000'000;

// Two cores, two workers, `rounds` rounds of 10 ms, each of which overlaps the next by a little.
control::TraceReply made_up(std::uint64_t rounds) {
  control::TraceReply trace;
  for (std::uint32_t core = 0; core < 2; ++core) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t start = kOrigin + round * 10'000'000 + core * 1000;
      control::RoundRecord& record = *trace.add_records();
      record.set_core(core);
      record.set_round(round);
      record.set_first_push_ns(start);
      record.set_complete_ns(start + 9'000'000);
      record.set_replied_ns(start + 10'500'000);
      record.set_core_ns(2'000'000);
      for (std::uint64_t worker = 0; worker < 2; ++worker) {
        control::WorkerSpan& span = *record.add_workers();
        span.set_worker_index(static_cast<std::uint32_t>(worker));
        span.set_first_push_ns(start + worker * 1'000'000);
        span.set_last_push_ns(start + 4'000'000 + worker * 3'000'000);
      }
    }
  }
  control::Member& member = *trace.add_members();
  member.set_worker_index(1);
  member.set_host("gpu-2");
  member.set_process_id(4711);
  member.set_transport("shm");
  return trace;
}

// Spans of one thread must not overlap unless one holds the other.
void check_nesting(const json& events) {
  std::map<std::pair<int, int>, std::vector<double>> open;  // ends, the innermost last
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    auto& ends = open[{event["pid"], event["tid"]}];
    const double begin = event["ts"];
    const double end = begin + event["dur"].get<double>();
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (!ends.empty()) CHECK(end <= ends.back() + 1e-6);
    ends.push_back(end);
  }
}

TEST_CASE("every event of a trace has its fields, in order, without negative times") {
  const json trace = json::parse(chrome_trace("mnist", made_up(3)));
  double last = 0.0;
  std::map<std::string, int> names;
  for (const json& event : trace["traceEvents"]) {
    for (const char* field : {"name", "ph", "ts", "dur", "pid", "tid", "args"}) {
      CHECK(event.contains(field));
    }
    CHECK(event["ts"].get<double>() >= last);
    CHECK(event["dur"].get<double>() >= 0.0);
    last = event["ts"];
    ++names[event["name"]];
  }
  // Two cores and two workers on each: six lanes, three rounds.
  for (const char* name : {"push", "wait", "aggregate", "reply"}) CHECK(names[name] == 18);
  CHECK(names["round 2"] == 2);
  CHECK(names["process_name"] == 4);
  CHECK(trace["otherData"]["job"] == "mnist");
  check_nesting(trace["traceEvents"]);
}

TEST_CASE("spans say when the median and the slowest worker had pushed all") {
  const json trace = json::parse(chrome_trace("mnist", made_up(1)));
  std::map<std::string, std::pair<double, double>> core0;
  std::set<std::string> processes;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["ph"] == "X" && event["pid"] == 1) {
      core0[event["name"]] = {event["ts"], event["dur"]};
    }
  }
  CHECK(core0["round 0"] == std::pair(0.0, 10500.0));
  CHECK(core0["push"] == std::pair(0.0, 4000.0));
  CHECK(core0["wait"] == std::pair(4000.0, 3000.0));
  CHECK(core0["aggregate"] == std::pair(7000.0, 2000.0));
  CHECK(core0["reply"] == std::pair(9000.0, 1500.0));
  CHECK(processes ==
        std::set<std::string>{"core 0", "core 1", "worker 0", "worker 1 (gpu-2, pid 4711, shm)"});
}

TEST_CASE("of a job over racks workers have their index, and racks what they brought") {
  control::TraceReply reply = made_up(2);
  for (control::RoundRecord& record : *reply.mutable_records()) {
    std::uint32_t index = 4;
    for (control::WorkerSpan& span : *record.mutable_workers()) span.set_worker_index(index++);
    control::RackSpan& rack = *record.add_racks();
    rack.set_rack("a");
    rack.set_first_ns(record.first_push_ns() + 6'000'000);
    rack.set_last_ns(record.first_push_ns() + 8'500'000);
  }
  reply.mutable_members(0)->set_worker_index(5);
  control::Member& server = *reply.add_members();
  server.set_rack("a");
  const json trace = json::parse(chrome_trace("wide", reply));
  std::map<std::string, int> pids;
  std::map<std::string, std::pair<double, double>> core0;
  std::pair<double, double> brought;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") pids[event["args"]["name"]] = event["pid"];
  }
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["args"]["round"] != 0) continue;
    const std::pair<double, double> span(event["ts"], event["dur"]);
    if (event["pid"] == 1) core0[event["name"]] = span;
    if (event["pid"] == pids["rack a"] && event["args"]["core"] == 0) brought = span;
  }
  CHECK(pids.size() == 5);
  CHECK(pids.count("worker 4") == 1);
  CHECK(pids.count("worker 5 (gpu-2, pid 4711, shm)") == 1);
  CHECK(brought == std::pair(6000.0, 2500.0));
  CHECK(core0["racks"] == std::pair(7000.0, 1500.0));
  CHECK(core0["aggregate"] == std::pair(8500.0, 500.0));
  CHECK(core0["reply"] == std::pair(9000.0, 1500.0));
  check_nesting(trace["traceEvents"]);
}

TEST_CASE("stamps that run backwards or are missing make empty spans") {
  control::TraceReply trace = made_up(1);
  trace.mutable_records(0)->set_complete_ns(1);
  trace.mutable_records(0)->mutable_workers(1)->set_last_push_ns(0);
  trace.mutable_records(1)->clear_workers();
  for (const json& event : json::parse(chrome_trace("x", trace))["traceEvents"]) {
    CHECK(event["ts"].get<double>() >= 0.0);
    CHECK(event["dur"].get<double>() >= 0.0);
  }
  CHECK(json::parse(chrome_trace("x", {}))["traceEvents"].empty());
}

Look look_at(double seconds, std::uint64_t chunks) {
  Look look;
  look.at = std::chrono::steady_clock::time_point(
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds)));
  look.server.set_version("1.2.3");
  control::CoreInfo& core = *look.server.add_cores();
  core.set_busy_share(0.25);
  core.set_cpu(-1);
  core.add_jobs()->set_name("mnist");
  control::JobInfo& job = *look.jobs.add_jobs();
  job.set_job_id(7);
  job.set_state(control::JOB_STATE_RUNNING);
  job.mutable_spec()->set_name("mnist");
  job.mutable_statistics()->set_chunks(10);
  job.mutable_statistics()->set_chunks_completed(chunks);
  job.mutable_statistics()->set_bytes_received(chunks * 1024);
  look.jobs.add_jobs()->set_state(control::JOB_STATE_ENDED);
  return look;
}

TEST_CASE("top shows cores as bars and live jobs with rates between two looks") {
  const Look before = look_at(1.0, 1000);
  const Look now = look_at(3.0, 1500);
  const std::string text = top_text(before, now);
  CHECK_THAT(text, Contains("phub-server 1.2.3") && Contains("25.0 %  #####---------------") &&
                       Contains("25.0  250.0 KiB/s") && !Contains("ended"));
  const json rates = json::parse(top_json(before, now))["rates"][0];
  CHECK(rates["job_id"] == 7);
  CHECK(rates["rounds_per_second"] == 25.0);
  // A job that is new, or a counter that begins again, has no rate yet.
  CHECK_THAT(top_text(look_at(1.0, 2000), now), Contains("0.0     0 B/s"));
}

TEST_CASE("a screen is drawn over the last one, never wraps, and says where it was cut") {
  CHECK(screen_of("12345678\nab\n", 4, 3) == "\x1b[H123>\x1b[K\r\nab\x1b[K\r\n\x1b[J");
  CHECK(screen_of("\u00e9\u00e9\u00e9\u00e9\n\u00e9\u00e9\u00e9\u00e9\u00e9\n", 4, 9) ==
        "\x1b[H\u00e9\u00e9\u00e9\u00e9\x1b[K\r\n\u00e9\u00e9\u00e9>\x1b[K\r\n\x1b[J");
  CHECK(screen_of("1\n2\n3\n4\n", 20, 4) ==
        "\x1b[H1\x1b[K\r\n2\x1b[K\r\n... 2 more lines\x1b[K\r\n\x1b[J");
}

TEST_CASE("on a narrow terminal columns go, the least important first, and long names are cut") {
  const Look before = look_at(1.0, 1000);
  Look now = look_at(3.0, 1500);
  now.jobs.mutable_jobs(0)->mutable_spec()->set_name("mnist" + std::string(90, 'x'));
  now.server.mutable_cores(0)->mutable_jobs(0)->set_name("mnist" + std::string(90, 'x'));
  const auto longest = [](const std::string& text) {
    std::size_t most = 0;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = text.find('\n', begin);
      most = std::max(most, std::min(end, text.size()) - begin);
    }
    return most;
  };
  CHECK(longest(top_text(before, now)) > 150);
  for (const std::size_t columns : {80U, 100U}) {
    const std::string text = top_text(before, now, columns);
    INFO(text);
    CHECK(longest(text) <= columns);
    CHECK_THAT(text, Contains("mnistxxx") && Contains("x...") && Contains("25.0") &&
                         Contains("LONGEST PART") && Contains("(too narrow for: RACK"));
  }
  // With room for all, nothing is said of it.
  CHECK(top_text(before, now, 300) == top_text(before, now));
}

}  // namespace
}  // namespace phub::phubctl

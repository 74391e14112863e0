// What the page shows beside the state: rates of the last minutes, cures of failed jobs, the newest
// snapshots.
#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "server/page/rate_history.h"
#include "server/rpc/messages/messages.h"
#include "server/snapshot/newest_files.h"
#include "tests/support/temporary_directory.h"

namespace phub::server {
namespace {

using Catch::Matchers::Contains;
using std::chrono::seconds;

constexpr RateHistory::TimePoint kStart{seconds(1000)};

Totals totals_of(std::uint64_t jobs, double rounds) {
  Totals totals;
  for (std::uint64_t id = 1; id <= jobs; ++id) {
    totals.jobs.push_back({.job_id = id,
                           .rounds = rounds * static_cast<double>(id),
                           .bytes_received = static_cast<std::uint64_t>(rounds) * 100,
                           .bytes_sent = static_cast<std::uint64_t>(rounds) * 10});
  }
  totals.busy_nanoseconds = {static_cast<std::uint64_t>(rounds * 1e8)};
  return totals;
}

page::PageHistory seen(const RateHistory& history, RateHistory::TimePoint now,
                       std::uint64_t only = 0) {
  page::PageHistory message;
  history.fill(
      now, [only](std::uint64_t id) { return only == 0 || id == only; }, message);
  return message;
}

TEST_CASE("rates of jobs and cores are kept from one look to the next") {
  RateHistory history;
  CHECK(history.is_due(kStart));
  history.add(kStart, totals_of(2, 0));
  CHECK_FALSE(history.is_due(kStart + seconds(3)));
  CHECK(history.is_due(kStart + RateHistory::kInterval));
  CHECK(seen(history, kStart).jobs().empty());
  history.add(kStart + seconds(4), totals_of(2, 8));
  history.add(kStart + seconds(8), totals_of(3, 28));
  const page::PageHistory all = seen(history, kStart + seconds(9));
  CHECK(all.interval_seconds() == 4.0);
  CHECK(all.seconds_ago() == 1.0);
  REQUIRE(all.jobs_size() == 2);  // the third has no rate yet
  const page::JobHistory& second = all.jobs(1);
  CHECK(second.job_id() == 2);
  REQUIRE(second.rounds_per_second_size() == 2);
  CHECK(second.rounds_per_second(0) == 4.0F);
  CHECK(second.rounds_per_second(1) == 10.0F);
  CHECK(second.bytes_received_per_second(1) == 500.0F);
  CHECK(second.bytes_sent_per_second(1) == 50.0F);
  REQUIRE(all.cores_size() == 1);
  CHECK(all.cores(0).busy_share(0) == Approx(0.2));
  CHECK(all.cores(0).busy_share(1) == Approx(0.5));
  CHECK(seen(history, kStart + seconds(9), 2).jobs_size() == 1);
  // A job that has ended is shown no more.
  history.add(kStart + seconds(12), totals_of(1, 30));
  CHECK(seen(history, kStart + seconds(12)).jobs_size() == 1);
}

TEST_CASE("the history is bounded in time and jobs") {
  RateHistory history;
  for (std::uint64_t i = 0; i < 2 * RateHistory::kPoints; ++i) {
    history.add(kStart + i * RateHistory::kInterval,
                totals_of(RateHistory::kJobsMax + 50, static_cast<double>(i)));
  }
  const page::PageHistory all = seen(history, kStart);
  CHECK(all.jobs_size() == static_cast<int>(RateHistory::kJobsMax));
  CHECK(all.jobs(0).rounds_per_second_size() == static_cast<int>(RateHistory::kPoints));
  CHECK(all.cores(0).busy_share_size() == static_cast<int>(RateHistory::kPoints));
}

JobView failed(RuleKind rule, std::uint64_t rounds) {
  JobSpec spec;
  spec.name = "demo";
  spec.rule = rule;
  JobView view;
  view.spec = std::make_shared<const JobSpec>(std::move(spec));
  view.state = JobState::kFailed;
  view.counters.chunks = 10;
  view.counters.chunks_completed = 10 * rounds;
  return view;
}

TEST_CASE("the cure of a failed job says whom to look at and whether it can be resumed") {
  JobView view = failed(RuleKind::kMomentum, 1);
  CHECK_THAT(cure_of(view), Contains("nothing to resume"));  // the first round sets parameters
  view = failed(RuleKind::kMomentum, 2);
  CHECK_THAT(cure_of(view), Contains("phubctl restore FILE") && Contains("begins anew"));
  view = failed(RuleKind::kSgd, 2);
  CHECK_THAT(cure_of(view), Contains("--resume CHECKPOINT,") && Contains("phubctl restore FILE"));
  view = failed(RuleKind::kMean, 2);
  CHECK_THAT(cure_of(view), Contains("workers have the parameters") && !Contains("restore"));
  CHECK_FALSE(Contains("look in").match(cure_of(view)));
  view.members.resize(5);
  for (MemberView& member : view.members) {
    member.host = "gpu-7";
    member.was_lost = true;
  }
  CHECK_THAT(cure_of(view), Contains("worker 0 (host gpu-7") && Contains("and of 2 more"));
  view.state = JobState::kEnded;
  CHECK(cure_of(view).empty());
}

TEST_CASE("the newest snapshots are told from their files' names, to who may see them") {
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& file, std::int64_t unix_s) {
    const std::filesystem::path path = folder.path / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "12345";
    const timespec time{.tv_sec = unix_s, .tv_nsec = 0};
    const timespec times[2] = {time, time};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  };
  write("default/a%20b.000000000007.safetensors", 100);
  write("default/demo.000000000012.worker.safetensors", 300);
  write("red~3/demo.000000000009.safetensors", 200);
  write("red~3/demo.safetensors", 400);
  write("red~3/notes.txt", 400);
  const auto everything = [](std::optional<std::uint32_t> /*tenant_id*/) { return true; };
  const NewestFiles all = newest_files(folder.path.string(), everything, 2);
  CHECK(all.in_all == 3);
  REQUIRE(all.files.size() == 2);
  CHECK(all.files[0].file == "default/demo.000000000012.worker.safetensors");
  CHECK(all.files[0].round == 12);
  CHECK(all.files[0].bytes == 5);
  CHECK(all.files[0].unix_s == 300);
  CHECK(all.files[1].tenant == "red");
  const auto of_default = [](std::optional<std::uint32_t> tenant_id) { return tenant_id == 0U; };
  const NewestFiles some = newest_files(folder.path.string(), of_default, 9);
  REQUIRE(some.files.size() == 2);
  CHECK(some.files[1].job == "a b");
}

}  // namespace
}  // namespace phub::server

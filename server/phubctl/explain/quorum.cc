#include "server/phubctl/explain/quorum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <optional>
#include <string>

#include "common/text/table.h"

namespace phub::phubctl {
namespace {

// Of a worker's pushes: below these nothing is worth a sentence.
constexpr double kDroppedShareMin = 0.01;
constexpr double kWithheldShareMin = 0.15;
constexpr double kImpatientShareMin = 0.01;  // of all rounds
constexpr double kGracesShareMin = 0.15;
constexpr std::uint32_t kGraceMsMin = 5;

std::string name_of(const control::Member& member) {
  return fmt::format("worker {} ({}, pid {})", member.worker_index(), member.host(),
                     member.process_id());
}

// Of all pushes of the worker; 0 before it has pushed.
double share_of(const control::WorkerStaleness& worker, std::uint64_t count) {
  const auto& pushes = worker.pushes();
  const auto all = std::accumulate(pushes.begin(), pushes.end(), std::uint64_t{0});
  return all == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(all);
}

std::optional<Reason> lost_workers(const control::JobInfo& job) {
  std::vector<std::string> lost;
  for (const control::Member& member : job.members()) {
    if (member.lost() && member.rack().empty()) lost.push_back(name_of(member));
  }
  if (lost.empty()) return {};
  return Reason{
      .topic = "lost workers",
      .what =
          fmt::format("The job goes on without {}; with fewer than {} of its {} workers it "
                      "would fail.",
                      fmt::join(lost, ", "), job.spec().rounds().quorum(), job.spec().workers()),
      .cure =
          "look in their logs; who was lost cannot come back to this job: start it again from "
          "a checkpoint or a snapshot when that pays"};
}

std::optional<Reason> late_pushes(const control::JobInfo& job) {
  std::vector<std::string> late;
  for (const control::Member& member : job.members()) {
    const double share = share_of(member.staleness(), member.staleness().dropped());
    if (share < kDroppedShareMin) continue;
    late.push_back(fmt::format("{} of those of {}", human_share(share), name_of(member)));
  }
  if (late.empty()) return {};
  return Reason{.topic = "late pushes",
                .what = fmt::format("Pushes came after their round and were dropped, so that work "
                                    "is lost: {}.",
                                    fmt::join(late, ", ")),
                .cure = fmt::format("a longer `rounds.grace_ms` (now {}), `late: \"add\"`, or a "
                                    "larger quorum; smaller batches for the slow worker",
                                    job.spec().rounds().grace_ms())};
}

// In so many of the rounds somebody waited for time to pass.
std::optional<Reason> impatient_rounds(const control::JobInfo& job) {
  const control::QuorumStatistics& done = job.statistics().quorum();
  if (done.rounds() == 0) return {};
  const double share = static_cast<double>(done.impatient()) / static_cast<double>(done.rounds());
  if (share < kImpatientShareMin) return {};
  return Reason{
      .topic = "rounds without a quorum",
      .what = fmt::format(
          "{} of the chunks' rounds went on without {} pushes when {} ms had passed "
          "since their first.",
          human_share(share), job.spec().rounds().quorum(), job.spec().rounds().patience_ms()),
      .cure =
          "a longer `rounds.patience_ms` (where a worker leaves it out, a third of its "
          "timeout_ms), "
          "if workers are farther apart than that; else a smaller quorum, or `late: \"add\"`, with "
          "which nobody waits"};
}

// How many rounds have ended with their grace.
std::optional<Reason> graces(const control::JobInfo& job) {
  const control::QuorumStatistics& done = job.statistics().quorum();
  const std::uint32_t grace = job.spec().rounds().grace_ms();
  if (done.rounds() == 0 || grace < kGraceMsMin) return {};
  const double share = static_cast<double>(done.graces()) / static_cast<double>(done.rounds());
  if (share < kGracesShareMin) return {};
  return Reason{
      .topic = "grace",
      .what = fmt::format("{} of the chunks' rounds waited for all of their grace of {} ms, "
                          "and somebody's push did not come.",
                          human_share(share), grace),
      .cure = "a shorter `rounds.grace_ms`"};
}

std::optional<Reason> withheld_replies(const control::JobInfo& job) {
  std::vector<std::string> withheld;
  for (const control::Member& member : job.members()) {
    const double share = share_of(member.staleness(), member.staleness().withheld());
    if (member.lost()) continue;
    if (share < kWithheldShareMin) continue;
    withheld.push_back(fmt::format("{} of those to {}", human_share(share), name_of(member)));
  }
  if (withheld.empty()) return {};
  return Reason{.topic = "bounded staleness",
                .what = fmt::format("Replies waited for the slowest worker, as no worker may be "
                                    "more than {} rounds ahead: {}.",
                                    job.spec().rounds().staleness(), fmt::join(withheld, ", ")),
                .cure = "a larger `rounds.staleness`, or smaller batches for the slowest worker"};
}

// Nobody is late or withheld, and yet all but one wait.
std::optional<Reason> turns(const control::JobInfo& job) {
  const control::JobSpec& spec = job.spec();
  if (!spec.rounds().turns()) return {};
  return Reason{.topic = "turns",
                .what = fmt::format("The {} workers take turns, so that one computes at a time and "
                                    "the others wait for it.",
                                    spec.workers()),
                .cure = "leave `rounds.turns` out, unless it is what others are compared with"};
}

}  // namespace

std::vector<Reason> explain_quorum(const control::JobInfo& job) {
  std::vector<Reason> reasons;
  for (const auto& reason : {lost_workers(job), impatient_rounds(job), late_pushes(job),
                             graces(job), withheld_replies(job), turns(job)}) {
    if (reason) reasons.push_back(*reason);
  }
  if (!reasons.empty()) return reasons;
  const control::QuorumStatistics& done = job.statistics().quorum();
  return {
      {.topic = kNothing,
       .what = fmt::format("Nobody is lost, late or withheld; {} of {} rounds of chunks went on "
                           "without somebody's push.",
                           human_count(done.incomplete()), human_count(done.rounds())),
       .cure = "`phubctl job inspect` shows how old the parameters are that workers compute with"}};
}

}  // namespace phub::phubctl

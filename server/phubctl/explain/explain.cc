#include "server/phubctl/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/rule.h"
#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/explain/causes.h"
#include "server/phubctl/explain/input.h"
#include "server/phubctl/explain/quorum.h"
#include "server/phubctl/explain/racks.h"
#include "server/phubctl/explain/snapshots.h"
#include "server/phubctl/explain/values.h"

namespace phub::phubctl {
namespace {

constexpr std::size_t kWorkersShown = 8;

std::string missing_text(const control::JobInfo& job) {
  if (job.rack_links().empty()) {
    return fmt::format("{} of {} workers have joined, and no round begins before all have.",
                       job.members_size(), job.spec().workers());
  }
  return fmt::format(
      "{} workers of rack {} and {} of {} other racks have joined here, and no round begins before "
      "all have, with all of their workers.",
      workers_text(job), job.rack(), job.members_size() - static_cast<int>(workers_here(job)),
      job.rack_links_size());
}

// Times are UTC in one form, so the last in order is the newest. Null: there is none of the job.
const control::SnapshotInfo* newest_of(const control::JobInfo& job,
                                       const std::vector<control::SnapshotInfo>& snapshots) {
  const control::SnapshotInfo* newest = nullptr;
  for (const control::SnapshotInfo& snapshot : snapshots) {
    if (snapshot.job() != job.spec().name() || snapshot.tenant() != job.tenant()) continue;
    if (newest == nullptr || newest->created() <= snapshot.created()) newest = &snapshot;
  }
  return newest;
}

// What can be restored, as an end of the cure.
std::string snapshot_text(const control::JobInfo& job, const Looks& server) {
  if (!server.snapshots || job.cure().empty()) return "";
  const control::SnapshotInfo* const newest = newest_of(job, *server.snapshots);
  if (newest == nullptr) return "; this server has no snapshot of it";
  return fmt::format("; its newest snapshot here is {}, of round {}", newest->file(),
                     newest->round());
}

// How the training of a job that is over goes on. With a rule that has state (momentum) the servers
// had it, and phub-worker refuses a checkpoint alone.
std::string way_on(const control::JobInfo& job) {
  if (state_arrays(static_cast<RuleKind>(job.spec().rule())) == 0) {
    return "start its workers again with --resume CHECKPOINT (after steps of their own, "
           "train.payload, with --restart-momentum)";
  }
  return fmt::format(
      "restore the job from a snapshot (`phubctl snapshots`, `phubctl restore FILE --as {}`) and "
      "start its workers again, with --resume of the checkpoint that names the snapshot; or, "
      "without a snapshot, with --resume CHECKPOINT --restart-momentum",
      job.spec().name());
}

// A job that does not run has no steps to explain.
std::optional<Reason> not_running(const control::JobInfo& job, const Looks& server) {
  if (job.state() == control::JOB_STATE_RUNNING) return {};
  if (job.state() == control::JOB_STATE_WAITING) {
    return Reason{.topic = "workers are missing",
                  .what = missing_text(job),
                  .cure = job.rack_links().empty()
                              ? "start the others, or look in their logs for why they do not come"
                              : "start those of every rack, at its own servers; ask these who is "
                                "missing there, or look in the logs for why they do not come"};
  }
  const bool has_failed = job.state() == control::JOB_STATE_FAILED;
  const std::string what = fmt::format("The job has {}{}{}.", has_failed ? "failed" : "ended",
                                       job.reason().empty() ? "" : ": ", job.reason());
  if (!has_failed) {
    return Reason{.topic = "ended",
                  .what = what,
                  .cure = "none is needed; to train on, with more epochs, " + way_on(job)};
  }
  return Reason{.topic = "failed",
                .what = what,
                .cure = job.cure().empty() ? way_on(job) : job.cure() + snapshot_text(job, server)};
}

// Said last, beside what few rounds do show.
Reason too_few_rounds(const control::JobTiming& timing) {
  return {.topic = "too early",
          .what = fmt::format("Only {} {} timed here so far: which worker is the slowest shows "
                              "after {}.",
                              timing.rounds(), timing.rounds() == 1 ? "round is" : "rounds are",
                              kRoundsToBlame),
          .cure = "ask again in a moment"};
}

Reason nothing_stands_out(const control::JobInfo& job) {
  const RoundPart longest = longest_part(job.timing());
  return {
      .topic = kNothing,
      .what = fmt::format("No straggler, no saturated core, no slow transport; the longest part "
                          "of a round is \"{}\" with {}.",
                          longest.name, human_time(longest.seconds)),
      .cure = "`phubctl trace` shows the rounds one by one",
      .seconds = longest.seconds};
}

std::vector<Reason> quorum_rounds(const control::JobInfo& job) {
  std::vector<Reason> reasons = explain_quorum(job);
  if (const auto input = input_bound(job)) {
    if (reasons.front().topic == kNothing) reasons.clear();
    reasons.push_back(input->reason);
  }
  return reasons;
}

// REQUIRES: the job runs.
std::vector<Reason> slow_rounds(const control::JobInfo& job, const Looks& server) {
  if (const auto lost = lost_rack(job)) return {*lost};
  if (job.spec().rounds().quorum() > 0) return quorum_rounds(job);
  if (!job.has_timing() || job.timing().round_seconds() <= 0.0) {
    return {{.topic = "too early",
             .what = "The job has not done two rounds here yet.",
             .cure = "ask again in a moment; if it stays so, the workers are still in their first "
                     "step, or hang: look at `phubctl job inspect`"}};
  }
  if (auto reason = standstill(job, server)) return {*reason};  // what was before explains nothing
  std::vector<Reason> reasons = causes_of(job, server);
  if (job.timing().rounds() < kRoundsToBlame) {
    reasons.push_back(too_few_rounds(job.timing()));
  } else if (reasons.empty()) {
    reasons.push_back(nothing_stands_out(job));
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.seconds > b.seconds; });
  return reasons;
}

}  // namespace

std::vector<RoundPart> parts_of(const control::JobTiming& timing) {
  std::vector<RoundPart> parts = {{"compute", timing.compute_seconds()},
                                  {"push", timing.push_seconds()},
                                  {"wait for the slowest", timing.wait_seconds()}};
  if (!timing.racks().empty()) parts.push_back({"wait for other racks", timing.racks_seconds()});
  parts.push_back({"aggregate", timing.aggregate_seconds()});
  parts.push_back({"reply", timing.reply_seconds()});
  return parts;
}

RoundPart longest_part(const control::JobTiming& timing) {
  const std::vector<RoundPart> parts = parts_of(timing);
  return *std::max_element(parts.begin(), parts.end(),
                           [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
}

std::vector<Reason> explain(const control::JobInfo& job, const Looks& server) {
  if (auto reason = corrupt(job)) return {*reason};  // it has ended the job, or is about to
  std::vector<Reason> reasons;
  if (auto reason = not_running(job, server)) {
    reasons.push_back(*reason);
  } else {
    reasons = slow_rounds(job, server);
    // Rounds that train nothing are worse than slow ones.
    if (auto finding = not_finite(job)) reasons.insert(reasons.begin(), *finding);
  }
  if (auto reason = snapshots_failed(job)) reasons.push_back(*reason);
  return reasons;
}

std::string round_sentence(const control::JobInfo& job) {
  const control::JobTiming& timing = job.timing();
  if (!job.has_timing() || timing.round_seconds() <= 0.0) return "";
  std::string parts;
  for (const auto& [name, seconds] : parts_of(timing)) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name,
                         human_share(seconds / timing.round_seconds()));
  }
  return fmt::format("A round of \"{}\" takes {} (mean of the last {}): {}.", job.spec().name(),
                     human_time(timing.round_seconds()), timing.rounds(), parts);
}

std::string explanation_text(const control::JobInfo& job, const Looks& server) {
  std::string text = round_sentence(job);
  if (!text.empty()) text += "\n\n";
  int number = 0;
  for (const Reason& reason : explain(job, server)) {
    text += fmt::format("{}. {}\n   Cure: {}.\n", ++number, reason.what, reason.cure);
  }
  if (job.state() != control::JOB_STATE_RUNNING) return text;
  const std::string steps = steps_text(job, kWorkersShown);
  text += steps.empty()
              ? "\nNo worker says what its steps wait for: phub-worker does, and a program "
                "that calls report_steps.\n"
              : "\nWhat the workers say of their last steps:\n" + steps;
  return text;
}

std::string explanation_json(const control::JobInfo& job, const Looks& server) {
  using nlohmann::ordered_json;
  ordered_json reasons = ordered_json::array();
  for (const Reason& reason : explain(job, server)) {
    reasons.push_back({{"topic", reason.topic},
                       {"what", reason.what},
                       {"cure", reason.cure},
                       {"seconds", reason.seconds}});
  }
  ordered_json all = {{"job", job.spec().name()}, {"job_id", job.job_id()}};
  if (job.has_timing()) all["timing"] = ordered_json::parse(message_json(job.timing()));
  all["findings"] = std::move(reasons);
  all["steps"] = steps_json(job);
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub::phubctl

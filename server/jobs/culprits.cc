#include "server/jobs/culprits.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/base/log_value.h"
#include "server/jobs/table.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kNamedMax = 16;  // members of a job, each once

// These REQUIRE the mutex. Where workers vote, overflows are how their loss scale is found, and not
// for the log.
bool is_to_be_named(const Job& job) {
  if (job.spec->watch_values == WatchValues::kOff) return false;
  const Memory memory = job.place.memory;
  return job.spec->loss_scale.kind != LossScaling::kVoted &&
         (memory == Memory::kHeld || memory == Memory::kToRelease);
}

void name_in_log(Job& job, Member& member, const WorkerValues& values) {
  if (values.pushes == 0 || member.was_named) return;
  member.was_named = true;
  if (++job.named > kNamedMax) return;
  const NotFinite& found = values.first;
  spdlog::warn("event=not_finite job={} id={} member={} value={} key={} element={} round={}{}",
               log_value(label(job)), job.id, log_value(describe(member)), word_of(found.value),
               log_value(key_name(*job.spec, found.key)), found.element, found.round,
               job.named == kNamedMax ? " note=\"others are counted only\"" : "");
}

}  // namespace

std::string key_name(const JobSpec& spec, std::uint32_t key) {
  return key < spec.keys.size() ? spec.keys[key].name : fmt::format("#{}", key);
}

std::string describe(const NotFinite& found, const JobSpec& spec) {
  return fmt::format(
      "{} in key \"{}\", element {}, {}", word_of(found.value), key_name(spec, found.key),
      found.element,
      found.round == 0 ? "of the initial values" : fmt::format("in round {}", found.round));
}

std::uint32_t first_culprit(const std::vector<WorkerValues>& values) {
  std::uint32_t first = 0;
  for (std::uint32_t seat = 0; seat < values.size(); ++seat) {
    if (values[seat].pushes == 0) continue;
    const bool is_earlier = values[seat].first.round < values[first].first.round;
    if (values[first].pushes == 0 || is_earlier) first = seat;
  }
  return first;
}

// The cores find them; here they are told, and the jobs end that are to. One that has ended
// meanwhile is looked at before its memory goes.
void JobTable::name_culprits() {
  std::vector<std::shared_ptr<Job>> watched;
  {
    const JobIndex::Lock lock(index_);
    for (const auto& [id, job] : index_.all()) {
      if (is_to_be_named(*job)) watched.push_back(job);
    }
  }
  for (const std::shared_ptr<Job>& job : watched) {
    const auto counters = index_.data_plane()->job_counters(job->id);
    if (!counters || counters->values.empty()) continue;
    const std::vector<WorkerValues>& values = counters->values;
    const JobIndex::Lock lock(index_);
    for (const auto& [seat, member] : job->members) {
      if (seat < values.size()) name_in_log(*job, *member, values[seat]);
    }
    const std::uint32_t culprit = first_culprit(values);
    const auto member = job->members.find(culprit);
    const bool fails = job->spec->watch_values == WatchValues::kFail && is_live(*job);
    if (!fails || values[culprit].pushes == 0) continue;
    const std::string who = member == job->members.end()
                                ? fmt::format("worker {}", job->rack.first_worker + culprit)
                                : describe(*member->second);
    life.finish(*job, JobState::kFailed,
                fmt::format("{} pushed {}, and watch_values is fail; look at that worker's data "
                            "and loss of the round, lower the learning rate or clip gradients, or "
                            "go on with watch_values name",
                            who, describe(values[culprit].first, *job->spec)));
  }
}

}  // namespace phub::server

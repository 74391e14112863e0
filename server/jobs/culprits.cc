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
bool is_named_in_log(const Job& job) {
  return job.spec->watch_values != WatchValues::kOff &&
         job.spec->loss_scale.kind != LossScaling::kVoted;
}

bool is_to_be_looked_at(const Job& job) {
  const Memory memory = job.place.memory;
  return (is_named_in_log(job) || job.spec->checksums) &&
         (memory == Memory::kHeld || memory == Memory::kToRelease);
}

std::string describe_seat(const Job& job, std::uint32_t seat) {
  const auto member = job.members.find(seat);
  return member == job.members.end() ? fmt::format("worker {}", job.rack.first_worker + seat)
                                     : describe(*member->second);
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

// Of the findings that have a push the one whose round is the earliest.
template <typename Found, typename RoundOf>
std::uint32_t seat_of_earliest(const std::vector<Found>& found, RoundOf round_of) {
  std::uint32_t first = 0;
  for (std::uint32_t seat = 0; seat < found.size(); ++seat) {
    if (found[seat].pushes == 0) continue;
    const bool is_earlier = round_of(found[seat]) < round_of(found[first]);
    if (found[first].pushes == 0 || is_earlier) first = seat;
  }
  return first;
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
  return seat_of_earliest(values, [](const WorkerValues& of) { return of.first.round; });
}

std::uint32_t first_culprit(const std::vector<WorkerCorruption>& corruption) {
  return seat_of_earliest(corruption, [](const WorkerCorruption& of) { return of.round; });
}

std::string describe(const WorkerCorruption& found, const JobSpec& spec, const std::string& who) {
  return fmt::format(
      "{} pushed a chunk of key \"{}\" {} that has not its checksum: bits changed between the "
      "gradient and the sum, which is without them; test that host's memory and network, go on "
      "from the last snapshot or checkpoint",
      who, key_name(spec, found.key),
      found.round == 0 ? "of the initial values" : fmt::format("in round {}", found.round));
}

namespace {

// These REQUIRE the mutex; a reason, or nothing: the job goes on.
std::string reason_to_end(const Job& job, const std::vector<WorkerValues>& values) {
  if (values.empty() || job.spec->watch_values != WatchValues::kFail) return "";
  const std::uint32_t culprit = first_culprit(values);
  const NotFinite& found = values[culprit].first;
  if (values[culprit].pushes == 0) return "";
  return fmt::format("{} pushed {}, and watch_values is fail; {}, or go on with watch_values name",
                     describe_seat(job, culprit), describe(found, *job.spec),
                     found.round == 0
                         ? "initialise with numbers"
                         : "look at that worker's data and loss of the round, lower the learning "
                           "rate or clip gradients");
}

std::string reason_to_end(const Job& job, const std::vector<WorkerCorruption>& corruption) {
  if (corruption.empty()) return "";
  const std::uint32_t culprit = first_culprit(corruption);
  if (corruption[culprit].pushes == 0) return "";
  return describe(corruption[culprit], *job.spec, describe_seat(job, culprit));
}

}  // namespace

// The cores find them; here they are told, and the jobs end that are to. One that has ended
// meanwhile is looked at before its memory goes.
void JobTable::name_culprits() {
  std::vector<std::shared_ptr<Job>> watched;
  {
    const JobIndex::Lock lock(index_);
    for (const auto& [id, job] : index_.all()) {
      if (is_to_be_looked_at(*job)) watched.push_back(job);
    }
  }
  for (const std::shared_ptr<Job>& job : watched) {
    const auto counters = index_.data_plane()->job_counters(job->id);
    if (!counters || (counters->values.empty() && counters->corruption.empty())) continue;
    const JobIndex::Lock lock(index_);
    const std::vector<WorkerValues>& values = counters->values;
    for (const auto& [seat, member] : job->members) {
      if (seat < values.size() && is_named_in_log(*job)) name_in_log(*job, *member, values[seat]);
    }
    if (!is_live(*job)) continue;
    // What was corrupt is the cause of what it has become.
    std::string reason = reason_to_end(*job, counters->corruption);
    if (reason.empty()) reason = reason_to_end(*job, values);
    if (!reason.empty()) life.finish(*job, JobState::kFailed, reason);
  }
}

}  // namespace phub::server

#include "server/job/timing.h"

#include <algorithm>
#include <map>

namespace phub::server {
namespace {

// A round over all cores that have chunks of the job.
struct WholeRound {
  RoundRecord record;
  std::size_t cores = 0;
};

void merge(const RoundRecord& part, WholeRound& whole) {
  RoundRecord& record = whole.record;
  if (whole.cores++ == 0) {
    record = part;
    return;
  }
  record.first_push = std::min(record.first_push, part.first_push);
  record.complete = std::max(record.complete, part.complete);
  record.replied = std::max(record.replied, part.replied);
  record.work += part.work;
  for (std::size_t i = 0; i < record.workers.size(); ++i) {
    record.workers[i].last_push = std::max(record.workers[i].last_push, part.workers[i].last_push);
  }
  for (std::size_t i = 0; i < record.racks.size(); ++i) {
    RackSpan& rack = record.racks[i];
    const RackSpan& other = part.racks[i];
    if (other.last == 0) continue;  // it brings nothing to that core
    rack.first = rack.last == 0 ? other.first : std::min(rack.first, other.first);
    rack.last = std::max(rack.last, other.last);
  }
}

// When the last of them had brought all; 0: there are none.
std::uint64_t last_of(const std::vector<RackSpan>& racks) {
  std::uint64_t last = 0;
  for (const RackSpan& rack : racks) last = std::max(last, rack.last);
  return last;
}

double seconds(std::uint64_t from, std::uint64_t to) {
  return to > from ? static_cast<double>(to - from) * 1e-9 : 0.0;
}

void add(const RoundRecord& round, std::uint64_t end, JobTiming& timing) {
  std::vector<std::uint64_t> pushed;
  for (const WorkerSpan& worker : round.workers) pushed.push_back(worker.last_push);
  std::sort(pushed.begin(), pushed.end());
  // Of an even number, the later one of the two in the middle would call a pair's slower half
  // the median.
  const std::uint64_t median = pushed[(pushed.size() - 1) / 2];
  std::uint64_t at = round.first_push;
  const auto until = [&](std::uint64_t next) {
    next = std::clamp(next, at, std::max(at, end));
    const double part = seconds(at, next);
    at = next;
    return part;
  };
  timing.push_seconds += until(median);
  timing.wait_seconds += until(pushed.back());
  timing.racks_seconds += until(last_of(round.racks));
  timing.aggregate_seconds += until(round.complete);
  timing.reply_seconds += until(round.replied);
  timing.compute_seconds += until(end);
  timing.round_seconds += seconds(round.first_push, end);
  timing.core_seconds += static_cast<double>(round.work) * 1e-9;
  for (std::size_t i = 0; i < round.workers.size(); ++i) {
    const std::uint64_t last = round.workers[i].last_push;
    timing.workers[i].last_share += last == pushed.back() ? 1.0 : 0.0;
    timing.workers[i].late_seconds += seconds(median, last);
  }
  for (std::size_t i = 0; i < round.racks.size(); ++i) {
    const RackSpan& rack = round.racks[i];
    if (rack.last == 0) continue;
    timing.racks[i].brings = true;
    timing.racks[i].last_share += rack.last == last_of(round.racks) ? 1.0 : 0.0;
    timing.racks[i].late_seconds += seconds(pushed.back(), rack.first);
    timing.racks[i].arrival_seconds += seconds(rack.first, rack.last);
  }
  ++timing.rounds;
}

void divide(JobTiming& timing) {
  const auto rounds = static_cast<double>(timing.rounds);
  for (double* const sum : {&timing.round_seconds, &timing.push_seconds, &timing.wait_seconds,
                            &timing.racks_seconds, &timing.aggregate_seconds, &timing.reply_seconds,
                            &timing.compute_seconds, &timing.core_seconds}) {
    *sum /= rounds;
  }
  for (WorkerTiming& worker : timing.workers) {
    worker.last_share /= rounds;
    worker.late_seconds /= rounds;
  }
  for (RackTiming& rack : timing.racks) {
    rack.last_share /= rounds;
    rack.late_seconds /= rounds;
    rack.arrival_seconds /= rounds;
  }
}

}  // namespace

std::optional<JobTiming> timing_of(const std::vector<CoreRounds>& cores) {
  std::map<std::uint64_t, WholeRound> rounds;
  for (const CoreRounds& core : cores) {
    for (const RoundRecord& record : core.records) merge(record, rounds[record.round]);
  }
  JobTiming timing;
  for (auto next = rounds.begin(); next != rounds.end();) {
    const auto& [number, round] = *next++;
    if (next == rounds.end() || next->first != number + 1) continue;
    if (round.cores < cores.size() || next->second.cores < cores.size()) continue;
    timing.workers.resize(round.record.workers.size());
    timing.racks.resize(round.record.racks.size());
    add(round.record, next->second.record.first_push, timing);
  }
  if (timing.rounds == 0) return std::nullopt;
  divide(timing);
  return timing;
}

}  // namespace phub::server

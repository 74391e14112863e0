#include "server/phubctl/explain/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "common/text/table.h"

namespace phub::phubctl {
namespace {

constexpr double kOverflowShareMin = 0.01;  // a dynamic loss scale probes one step in thousands

std::string whose(const control::Member& member) {
  return fmt::format("worker {} ({}, pid {})", member.worker_index(), member.host(),
                     member.process_id());
}

std::string round_text(std::uint64_t round) {
  return round == 0 ? "the initial values" : fmt::format("round {}", round);
}

std::string place_text(const control::NotFinite& found) {
  return fmt::format("{} in \"{}\", element {}, {}", found.value(), found.key(), found.element(),
                     found.round() == 0 ? "initial value" : round_text(found.round()));
}

const control::Member* first_culprit(const control::JobInfo& job) {
  const control::Member* first = nullptr;
  for (const control::Member& member : job.members()) {
    if (member.values().pushes() == 0) continue;
    const bool is_earlier =
        first == nullptr || member.values().first().round() < first->values().first().round();
    if (is_earlier) first = &member;
  }
  return first;
}

// What a worker receives that is not finite makes its own gradients so.
std::string others_text(const control::JobInfo& job, const control::Member& first) {
  int same = 0;
  int later = 0;
  for (const control::Member& member : job.members()) {
    if (&member == &first || member.values().pushes() == 0) continue;
    const bool is_same = member.values().first().round() == first.values().first().round();
    ++(is_same ? same : later);
  }
  std::string text;
  if (same > 0) text += fmt::format(" {} more did so in the same round.", same);
  if (later > 0) text += fmt::format(" {} more did so later, as parameters spread it.", later);
  return text;
}

std::optional<Reason> overflows(const control::JobInfo& job) {
  const control::JobStatistics& done = job.statistics();
  if (done.rounds() == 0) return {};
  const double share =
      static_cast<double>(done.rounds_skipped()) / static_cast<double>(done.rounds());
  if (share < kOverflowShareMin) return {};
  std::vector<std::string> words;
  for (const control::Member& member : job.members()) {
    const control::WorkerValues& values = member.values();
    if (values.overflow_votes() == 0) continue;
    words.push_back(fmt::format("{} in {} rounds{}", whose(member), values.overflow_votes(),
                                values.pushes() == 0
                                    ? std::string()
                                    : fmt::format(" (last {})", place_text(values.last()))));
  }
  if (words.empty()) return {};
  return Reason{.topic = "overflows",
                .what = fmt::format("Of {} rounds {} were left out. Gradients were too large for "
                                    "the wire of {}.",
                                    done.rounds(), done.rounds_skipped(), fmt::join(words, ", ")),
                .cure =
                    "where it is one worker, look at its data; else a lower `dynamic.initial` "
                    "or learning rate"};
}

}  // namespace

std::optional<Reason> not_finite(const control::JobInfo& job) {
  if (job.spec().loss_scaling() == control::LOSS_SCALING_VOTED) return overflows(job);
  const control::Member* const first = first_culprit(job);
  if (first == nullptr) return {};
  const control::NotFinite& found = first->values().first();
  std::string who = whose(*first);
  who[0] = 'W';
  return Reason{
      .topic = "not finite",
      .what =
          fmt::format("{} was the first to push what is not finite: {} in key \"{}\", element "
                      "{}, in {}; {} of its pushes have been so.{}",
                      who, found.value(), found.key(), found.element(), round_text(found.round()),
                      human_count(first->values().pushes()), others_text(job, *first)),
      .cure =
          "look at that worker's data and loss of the round; lower the learning rate, clip "
          "gradients, or use a loss scale, which leaves out such updates; `phubctl job inspect` "
          "has each worker's first and last"};
}

std::string values_text(const control::JobInfo& job) {
  Table table(">WORKER|>PUSHES NOT FINITE|FIRST|LAST|>OVERFLOW VOTES");
  bool is_empty = true;
  for (const control::Member& member : job.members()) {
    if (!member.has_values()) continue;
    is_empty = false;
    const control::WorkerValues& values = member.values();
    table.add({std::to_string(member.worker_index()), human_count(values.pushes()),
               values.has_first() ? place_text(values.first()) : "-",
               values.has_last() ? place_text(values.last()) : "-",
               human_count(values.overflow_votes())});
  }
  return is_empty ? "" : "\n" + table.to_string();
}

std::optional<Reason> corrupt(const control::JobInfo& job) {
  const control::Member* first = nullptr;
  for (const control::Member& member : job.members()) {
    if (!member.has_corruption()) continue;
    if (first == nullptr || member.corruption().round() < first->corruption().round()) {
      first = &member;
    }
  }
  if (first == nullptr) return {};
  std::string who = whose(*first);
  who[0] = 'W';
  return Reason{
      .topic = "corrupt",
      .what = fmt::format("{} pushed a chunk of key \"{}\" that has not its checksum, in {}: bits "
                          "changed between its gradient and the sum.",
                          who, first->corruption().key(), round_text(first->corruption().round())),
      .cure =
          "test that host's memory and network, and this one's, and go on from the last snapshot "
          "on others"};
}

std::string corruption_text(const control::JobInfo& job) {
  Table table(">WORKER|>PUSHES CORRUPT|FIRST");
  bool is_empty = true;
  for (const control::Member& member : job.members()) {
    if (!member.has_corruption()) continue;
    is_empty = false;
    const control::WorkerCorruption& found = member.corruption();
    table.add({std::to_string(member.worker_index()), human_count(found.pushes()),
               fmt::format("\"{}\", {}", found.key(), round_text(found.round()))});
  }
  return is_empty ? "" : "\n" + table.to_string();
}

}  // namespace phub::phubctl

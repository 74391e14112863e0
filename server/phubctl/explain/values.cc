#include "server/phubctl/explain/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "common/text/table.h"

namespace phub::phubctl {
namespace {

constexpr double kOverflowShareMin = 0.01;  // a dynamic loss scale probes one step in thousands

std::string whose(const control::Member& member) {
  return fmt::format("worker {} ({}, pid {})", member.worker_index(), member.host(),
                     member.process_id());
}

// At the beginning of a sentence.
std::string whose_first(const control::Member& member) {
  std::string words = whose(member);
  words[0] = 'W';
  return words;
}

// Of the members with a finding the one whose round is the earliest; null: none has any. `round_of`
// tells it of a member; nothing: it has none.
template <typename RoundOf>
const control::Member* earliest(const control::JobInfo& job, RoundOf round_of) {
  const control::Member* first = nullptr;
  std::optional<std::uint64_t> earliest_round;
  for (const control::Member& member : job.members()) {
    const std::optional<std::uint64_t> round = round_of(member);
    if (!round || (earliest_round && *round >= *earliest_round)) continue;
    first = &member;
    earliest_round = round;
  }
  return first;
}

std::string round_text(std::uint64_t round) {
  return round == 0 ? "the initial values" : fmt::format("round {}", round);
}

std::string place_text(const control::NotFinite& found) {
  return fmt::format("{} in \"{}\", element {}, {}", found.value(), found.key(), found.element(),
                     found.round() == 0 ? "initial value" : round_text(found.round()));
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
  const auto* const first = earliest(job, [](const control::Member& member) {
    const control::WorkerValues& values = member.values();
    return values.pushes() == 0 ? std::nullopt : std::optional(values.first().round());
  });
  if (first == nullptr) return {};
  const control::NotFinite& found = first->values().first();
  return Reason{
      .topic = "not finite",
      .what = fmt::format("{} was the first to push what is not finite: {} in key \"{}\", element "
                          "{}, in {}; {} of its pushes have been so.{}",
                          whose_first(*first), found.value(), found.key(), found.element(),
                          round_text(found.round()), human_count(first->values().pushes()),
                          others_text(job, *first)),
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
  const auto* const first = earliest(job, [](const control::Member& member) {
    return member.has_corruption() ? std::optional(member.corruption().round()) : std::nullopt;
  });
  if (first == nullptr) return {};
  return Reason{
      .topic = "corrupt",
      .what = fmt::format("{} pushed a chunk of key \"{}\" that has not its checksum, in {}: bits "
                          "changed between its gradient and the sum.",
                          whose_first(*first), first->corruption().key(),
                          round_text(first->corruption().round())),
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

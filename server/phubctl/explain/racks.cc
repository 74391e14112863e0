#include "server/phubctl/explain/racks.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/table.h"

namespace phub::phubctl {
namespace {

constexpr double kRacksShareMin = 0.10;  // of a round: less is not worth a sentence

std::string bytes_text(double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

const control::RackLink* link_of(const control::JobInfo& job, const std::string& rack) {
  const auto& links = job.rack_links();
  const auto found = std::find_if(links.begin(), links.end(),
                                  [&](const auto& link) { return link.rack() == rack; });
  return found == links.end() ? nullptr : &*found;
}

// The job at a server of that rack; null: nobody looked there.
const control::JobInfo* job_in(const std::string& rack, const Looks& looks) {
  for (const control::JobInfo& job : looks.in_other_racks) {
    if (job.rack() == rack) return &job;
  }
  return nullptr;
}

// What comes in a round and how fast, and what goes.
std::string flow_text(const control::JobInfo& job, const control::RackTiming& rack) {
  const control::RackLink* const link = link_of(job, rack.rack());
  const auto round = link == nullptr ? std::nullopt : round_of(*link, job);
  if (!round) return "its sums and replies come";
  const double seconds = rack.arrival_seconds();
  return fmt::format("{} a round come from there at {}/s and {} go there",
                     bytes_text(round->bytes_received),
                     bytes_text(seconds > 0.0 ? round->bytes_received / seconds : 0.0),
                     bytes_text(round->bytes_sent));
}

// Nothing of it is here for most of the wait.
Reason late_rack(const control::JobInfo& job, const control::RackTiming& rack) {
  const control::JobTiming& timing = job.timing();
  return {
      .topic = "late rack",
      .what = fmt::format(
          "Rack {} is late: nothing of it comes until {} after the last push of this rack's "
          "workers, {} of a round, and all is here {} after that push. It was the last rack in "
          "{} of the rounds.",
          rack.rack(), human_time(rack.late_seconds()),
          human_share(rack.late_seconds() / timing.round_seconds()),
          human_time(timing.racks_seconds()), human_share(rack.last_share())),
      .cure = fmt::format("ask that rack's server (`phubctl --server HOST:PORT job explain {}`): "
                          "its workers are late, or a rack that it waits for itself",
                          job.spec().name()),
      .seconds = timing.racks_seconds()};
}

// Its own server hardly waits for others.
Reason late_workers(const control::JobInfo& job, const control::RackTiming& rack,
                    const control::JobInfo& there) {
  const control::JobTiming& timing = job.timing();
  return {
      .topic = "late rack",
      .what = fmt::format(
          "The workers of rack {} are late: a round here waits {} ({}) for that rack, whose own "
          "server waits {} for other racks.",
          rack.rack(), human_time(timing.racks_seconds()),
          human_share(timing.racks_seconds() / timing.round_seconds()),
          human_time(there.timing().racks_seconds())),
      .cure = fmt::format("ask that rack's server which of its workers, and why: `phubctl "
                          "--server HOST:PORT job explain {}`",
                          job.spec().name()),
      .seconds = timing.racks_seconds()};
}

// What makes fewer bytes cross.
std::string fewer_bytes(const control::JobSpec& spec) {
  return spec.has_rack_compress()
             ? fmt::format("a `rack_compress.density` below {:.3g}", spec.rack_compress().density())
             : std::string(
                   "`rack_compress` (`phubctl job plan --explain` predicts both), or "
                   "several steps of each rack from one exchange to the next "
                   "(`rack_local_steps`, with `rack_rounds` without waiting for a late rack)");
}

// Both ends wait for each other.
Reason slow_link(const control::JobInfo& job, const control::RackTiming& rack,
                 const control::JobInfo& there) {
  const control::JobTiming& timing = job.timing();
  return {.topic = "uplink",
          .what = fmt::format(
              "The link to rack {} bounds it, or a server at its ends: {}, and both racks wait for "
              "others, {} ({}) of a round here and {} there.",
              rack.rack(), flow_text(job, rack), human_time(timing.racks_seconds()),
              human_share(timing.racks_seconds() / timing.round_seconds()),
              human_time(there.timing().racks_seconds())),
          .cure =
              "compare the rate with the link's (`phubctl doctor --peer`), and look whether a core "
              "is full at either server (`phubctl top`); if it is the link, a faster one, another "
              "`rack_shape` or " +
              fewer_bytes(job.spec()),
          .seconds = timing.racks_seconds()};
}

Reason slow_rack(const control::JobInfo& job, const control::RackTiming& rack) {
  const control::JobTiming& timing = job.timing();
  return {
      .topic = "other racks",
      .what = fmt::format(
          "A round waits {} ({}) for rack {}: {}, the first {}. Its workers push late one "
          "chunk after the other, or the link to it is slow; this server alone cannot tell.",
          human_time(timing.racks_seconds()),
          human_share(timing.racks_seconds() / timing.round_seconds()), rack.rack(),
          flow_text(job, rack),
          rack.late_seconds() > 0.0
              ? human_time(rack.late_seconds()) + " after the last push of this rack's workers"
              : "before this rack's workers have pushed all"),
      .cure = fmt::format("look at that rack's server too, which tells: `phubctl job explain {} "
                          "--also HOST:PORT`",
                          job.spec().name()),
      .seconds = timing.racks_seconds()};
}

}  // namespace

std::uint32_t workers_here(const control::JobInfo& job) {
  const auto& members = job.members();
  return static_cast<std::uint32_t>(std::count_if(
      members.begin(), members.end(), [](const auto& member) { return member.rack().empty(); }));
}

std::string workers_text(const control::JobInfo& job) {
  std::uint32_t all = job.spec().workers();
  for (const control::JobRack& rack : job.spec().racks()) {
    if (rack.name() == job.rack()) all = rack.workers();
  }
  return fmt::format("{}/{}", workers_here(job), all);
}

std::optional<LinkRound> round_of(const control::RackLink& link, const control::JobInfo& job) {
  const control::JobStatistics& done = job.statistics();
  if (done.chunks() == 0 || done.chunks_completed() < done.chunks()) return {};
  const double rounds =
      static_cast<double>(done.chunks_completed()) / static_cast<double>(done.chunks());
  return LinkRound{
      .bytes_sent = static_cast<double>(link.bytes_up_sent() + link.bytes_down_sent()) / rounds,
      .bytes_received =
          static_cast<double>(link.bytes_up_received() + link.bytes_down_received()) / rounds};
}

const control::RackTiming* last_rack(const control::JobTiming& timing) {
  const auto& racks = timing.racks();
  const auto last = std::max_element(racks.begin(), racks.end(), [](const auto& a, const auto& b) {
    return a.last_share() < b.last_share();
  });
  return last == racks.end() || timing.racks_seconds() <= 0.0 ? nullptr : &*last;
}

std::optional<Reason> other_racks(const control::JobInfo& job, const Looks& looks) {
  const control::JobTiming& timing = job.timing();
  const control::RackTiming* const rack = last_rack(timing);
  if (rack == nullptr) return {};
  if (timing.racks_seconds() < kRacksShareMin * timing.round_seconds()) return {};
  const double most = 0.5 * timing.racks_seconds();
  if (const control::JobInfo* const there = job_in(rack->rack(), looks)) {
    const bool waits_too = there->timing().racks_seconds() >= most;
    return waits_too ? slow_link(job, *rack, *there) : late_workers(job, *rack, *there);
  }
  return rack->late_seconds() > most ? late_rack(job, *rack) : slow_rack(job, *rack);
}

std::optional<Reason> lost_rack(const control::JobInfo& job) {
  for (const control::Member& member : job.members()) {
    if (!member.lost() || member.rack().empty()) continue;
    return Reason{
        .topic = "lost rack",
        .what = fmt::format("The job goes on here without rack {} ({}). Nobody trains on its "
                            "workers' samples.",
                            member.rack(), member.host()),
        .cure =
            "look in the log of this server and of that rack's (`event=rack_left_behind`); the "
            "rack cannot come back to this job: start it again from a checkpoint or a snapshot "
            "when that pays"};
  }
  return {};
}

}  // namespace phub::phubctl

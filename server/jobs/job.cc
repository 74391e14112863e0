#include "server/jobs/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/words.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kMissingNamedMax = 8;

// "worker 3" or "rack b", by its seat.
std::string name_of_seat(const Job& job, std::uint32_t seat) {
  if (seat < job.rack.workers) return fmt::format("worker {}", job.rack.first_worker + seat);
  const std::uint32_t other = seat - job.rack.workers;
  return "rack " + job.spec->racks[other + (other >= job.rack.own ? 1 : 0)].name;
}

// What the member of a seat has still to do before the job starts; empty: nothing.
std::string describe_delay(const Job& job, std::uint32_t seat, std::uint32_t cores) {
  const auto found = job.members.find(seat);
  if (found == job.members.end()) return name_of_seat(job, seat) + " has not joined";
  const Member& member = *found->second;
  if (!member.is_ready) return describe(member) + " has joined but is not ready";
  if (member.path.cores_connected < cores) {
    return fmt::format("{} is connected to {} of {} cores", describe(member),
                       member.path.cores_connected, cores);
  }
  if (member.rack.empty() || member.is_complete) return {};
  return describe(member) + " is connected, but its workers are not all there";
}

}  // namespace

std::string_view name_of(JobState state) {
  static constexpr Words<JobState, 4> kWords = {{"waiting", "running", "ended", "failed"}};
  return kWords.of(state);
}

std::string to_string(const JobName& job) {
  return job.tenant == kDefaultTenant ? job.name : job.tenant + "/" + job.name;
}

Status check_run(const Job& job, const std::string& run) {
  if (run.empty() || run == job.run || job.run.empty() || job.members.empty()) return {};
  return {Code::kAlreadyExists,
          fmt::format("job \"{}\" is another run's, of which is {}; wait for it to end, or choose "
                      "another name",
                      label(job), describe(*job.members.begin()->second))};
}

std::string describe(const Member& member) {
  const std::string who =
      member.rack.empty() ? fmt::format("worker {}", member.index) : "rack " + member.rack;
  return fmt::format("{} (host {}, pid {})", who, member.host, member.process_id);
}

Result<JobRack> rack_of(const JobSpec& spec, const std::string& own_rack) {
  JobRack rack{.workers = spec.workers, .seats = spec.workers};
  if (spec.racks.empty()) return rack;
  std::string names;
  for (std::uint32_t i = 0; i < spec.racks.size(); ++i) {
    if (spec.racks[i].name == own_rack) {
      rack.own = i;
      rack.workers = spec.racks[i].workers;
      rack.seats = rack.workers + static_cast<std::uint32_t>(spec.racks.size()) - 1;
      rack.is_linked = false;
      return rack;
    }
    rack.first_worker += spec.racks[i].workers;
    names += (names.empty() ? "" : ", ") + spec.racks[i].name;
  }
  return Status(Code::kFailedPrecondition,
                fmt::format("racks: this server is in {}, and the job's racks are {}; let workers "
                            "name the servers of their own rack, and servers their `rack`",
                            own_rack.empty() ? "no rack" : "rack " + own_rack, names));
}

std::string describe(const Topology& topology) {
  return fmt::format("cores_per_server [{}], server_index {}",
                     fmt::join(topology.cores_per_server, ", "), topology.server_index);
}

bool is_rack_complete(const Job& job, std::uint32_t cores) {
  std::uint32_t connected = 0;
  for (const auto& [seat, member] : job.members) {
    if (!member->rack.empty()) continue;
    if (!member->is_ready || member->path.cores_connected != cores) return false;
    ++connected;
  }
  return job.rack.is_linked && connected == job.rack.workers;
}

bool is_complete(const Job& job, std::uint32_t cores) {
  if (job.members.size() != job.rack.seats || !is_rack_complete(job, cores)) return false;
  return std::all_of(job.members.begin(), job.members.end(), [&](const auto& entry) {
    const Member& member = *entry.second;
    return member.rack.empty() || (member.is_complete && member.path.cores_connected == cores);
  });
}

bool is_finishing(const Job& job) {
  if (job.spec->racks.empty() || job.members.empty() || job.state != JobState::kRunning)
    return false;
  return std::all_of(job.members.begin(), job.members.end(), [](const auto& entry) {
    return entry.second->has_left || !entry.second->rack.empty();
  });
}

std::string describe_missing(const Job& job, std::uint32_t cores) {
  std::string text;
  std::uint32_t missing = 0;
  for (std::uint32_t seat = 0; seat < job.rack.seats; ++seat) {
    const std::string delay = describe_delay(job, seat, cores);
    if (delay.empty()) continue;
    if (++missing > kMissingNamedMax) continue;
    if (!text.empty()) text += "; ";
    text += delay;
  }
  if (missing > kMissingNamedMax) {
    text += fmt::format("; and {} more workers", missing - kMissingNamedMax);
  }
  if (!job.rack.is_linked) {
    text +=
        fmt::format("{}this rack is not connected to all others yet{}{}", text.empty() ? "" : "; ",
                    job.rack.delay.empty() ? "" : ": ", job.rack.delay);
  }
  return text;
}

Status unknown_job(const std::string& label) {
  return {Code::kNotFound,
          fmt::format("job \"{}\" is not known here; `phubctl job list` shows all", label)};
}

Status no_live_job(const JobName& name) {
  return {Code::kNotFound, fmt::format("no live job is named \"{}\"; `phubctl job list` shows all",
                                       to_string(name))};
}

Status job_is_over(const Job& job) {
  return {Code::kAborted, fmt::format("job \"{}\": {}", label(job), job.reason)};
}

Status is_replaced(std::string_view call, const Member& member) {
  return {Code::kAborted,
          fmt::format("a later {} of {} has taken this one's place", call, describe(member))};
}

JobLayout layout_of(const Job& job) {
  const JobSpec& spec = *job.spec;
  JobLayout layout{.job_id = job.id,
                   .tenant = job.tenant.name,
                   .tenant_id = job.tenant.id,
                   .weight = job.tenant.quotas.weight,
                   .epoch = job.epoch,
                   .workers = job.rack.workers,
                   .job_workers = spec.workers,
                   .wire_type = spec.wire_type,
                   .rule = spec.rule,
                   .hyper = spec.hyper,
                   .deterministic = spec.deterministic,
                   .weight_decay = {},
                   .lars = lars_of(spec),
                   .adaptive = adaptive_of(spec),
                   .exclude_from_lars = {},
                   .clip_norm = spec.clip_norm,
                   .ema_decay = spec.ema_decay,
                   .loss_scale = spec.loss_scale,
                   .plan = job.place.plan,
                   .server_index = job.place.topology.server_index,
                   .core_load_bytes = job.place.core_load_bytes,
                   .encoding = spec.encoding,
                   .rounds = spec.rounds,
                   .watch_values = spec.watch_values,
                   .checksums = spec.checksums,
                   .tcp_streams = spec.tcp_streams,
                   .whole_replies = spec.whole_replies};
  if (!spec.racks.empty()) {
    layout.rack = {static_cast<std::uint32_t>(spec.racks.size()), job.rack.own,
                   rack_trees_of(spec)};
    layout.rack_wire_type = spec.rack_wire_type;
    layout.rack_compress = spec.rack_compress;
    layout.rack_local = spec.rack_local;
  }
  layout.hyper.gradient_scale = gradient_scale_of(spec);
  layout.weight_decay.reserve(spec.keys.size());
  for (const KeySpec& key : spec.keys) {
    layout.weight_decay.push_back(key.weight_decay);
    layout.exclude_from_lars.push_back(key.exclude_from_lars);
  }
  return layout;
}

}  // namespace phub::server

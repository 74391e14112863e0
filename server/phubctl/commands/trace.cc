#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using nlohmann::ordered_json;

constexpr std::uint32_t kFirstCorePid = 1;
constexpr std::uint32_t kFirstWorkerPid = 100'001;
constexpr std::uint32_t kFirstRackPid = 200'001;
constexpr double kNanosecondsPerMicrosecond = 1e3;

struct TraceLane {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
};

struct Span {
  const char* name;
  std::uint64_t begin_ns;
  std::uint64_t end_ns;
};

class Trace {
 public:
  explicit Trace(std::uint64_t origin_ns) : origin_ns_(origin_ns) {}

  // What ends before it begins has no length: stamps of one round are taken at several places.
  void span(TraceLane lane, const Span& span, ordered_json arguments) {
    const std::uint64_t begin = std::max(span.begin_ns, origin_ns_);
    const std::uint64_t end = std::max(span.end_ns, begin);
    events_.push_back(event(span.name, "X", lane, std::move(arguments)));
    events_.back()["ts"] = microseconds(begin - origin_ns_);
    events_.back()["dur"] = microseconds(end - begin);
  }

  void name_process(std::uint32_t pid, const std::string& name) {
    names_.push_back(event("process_name", "M", {.pid = pid}, {{"name", name}}));
    names_.push_back(event("process_sort_index", "M", {.pid = pid}, {{"sort_index", pid}}));
  }
  void name_thread(TraceLane lane, const std::string& name) {
    if (!named_.insert({lane.pid, lane.tid}).second) return;
    names_.push_back(event("thread_name", "M", lane, {{"name", name}}));
  }

  // Names first, then the spans by time, the longer first where they begin together.
  ordered_json take() {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const ordered_json& a, const ordered_json& b) {
                       return std::pair(a["ts"].get<double>(), -a["dur"].get<double>()) <
                              std::pair(b["ts"].get<double>(), -b["dur"].get<double>());
                     });
    names_.insert(names_.end(), events_.begin(), events_.end());
    return names_;
  }

 private:
  static double microseconds(std::uint64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / kNanosecondsPerMicrosecond;
  }
  static ordered_json event(const char* name, const char* phase, TraceLane lane,
                            ordered_json arguments) {
    return {{"name", name},
            {"ph", phase},
            {"ts", 0},
            {"dur", 0},
            {"pid", lane.pid},
            {"tid", lane.tid},
            {"args", std::move(arguments)}};
  }

  const std::uint64_t origin_ns_;
  std::vector<ordered_json> names_;
  std::vector<ordered_json> events_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> named_;
};

std::uint64_t origin_of(const control::TraceReply& trace) {
  std::uint64_t origin = UINT64_MAX;
  for (const control::RoundRecord& record : trace.records()) {
    origin = std::min(origin, record.first_push_ns());
  }
  return origin == UINT64_MAX ? 0 : origin;
}

std::string parity_of(std::uint64_t round) { return round % 2 == 0 ? "even" : "odd"; }

// When the median worker (the lower one of two) and the slowest had pushed all.
std::pair<std::uint64_t, std::uint64_t> last_pushes(const control::RoundRecord& record) {
  std::vector<std::uint64_t> stamps;
  for (const control::WorkerSpan& worker : record.workers())
    stamps.push_back(worker.last_push_ns());
  if (stamps.empty()) return {record.complete_ns(), record.complete_ns()};
  std::sort(stamps.begin(), stamps.end());
  return {stamps[(stamps.size() - 1) / 2], stamps.back()};
}

// When other racks had brought all, and not before.
std::uint64_t racks_until(const control::RoundRecord& record, std::uint64_t from_ns) {
  std::uint64_t until = from_ns;
  for (const control::RackSpan& rack : record.racks()) until = std::max(until, rack.last_ns());
  return until;
}

// What a round consists of for whoever pushed from `first_ns` to `last_ns`.
void add_parts(const control::RoundRecord& record, std::uint64_t first_ns, std::uint64_t last_ns,
               TraceLane lane, const ordered_json& arguments, Trace& out) {
  const std::uint64_t slowest = last_pushes(record).second;
  out.span(lane, {"push", first_ns, last_ns}, arguments);
  out.span(lane, {"wait", last_ns, slowest}, arguments);
  const std::uint64_t gathered = racks_until(record, slowest);
  if (!record.racks().empty()) out.span(lane, {"racks", slowest, gathered}, arguments);
  out.span(lane, {"aggregate", gathered, record.complete_ns()}, arguments);
  out.span(lane, {"reply", std::max(gathered, record.complete_ns()), record.replied_ns()},
           arguments);
}

void add_core(const control::RoundRecord& record, Trace& out) {
  const TraceLane lane{.pid = kFirstCorePid + record.core(),
                       .tid = static_cast<std::uint32_t>(record.round() % 2)};
  out.name_thread(lane, parity_of(record.round()) + " rounds");
  const std::string round = fmt::format("round {}", record.round());
  out.span(lane, {round.c_str(), record.first_push_ns(), record.replied_ns()},
           {{"round", record.round()},
            {"work_us", static_cast<double>(record.core_ns()) / kNanosecondsPerMicrosecond}});
  add_parts(record, record.first_push_ns(), last_pushes(record).first, lane,
            {{"round", record.round()}}, out);
}

void add_workers(const control::RoundRecord& record, Trace& out) {
  for (const control::WorkerSpan& worker : record.workers()) {
    const TraceLane lane{.pid = kFirstWorkerPid + worker.worker_index(),
                         .tid = 2 * record.core() + static_cast<std::uint32_t>(record.round() % 2)};
    out.name_thread(lane,
                    fmt::format("core {}, {} rounds", record.core(), parity_of(record.round())));
    add_parts(record, worker.first_push_ns(), worker.last_push_ns(), lane,
              {{"round", record.round()}, {"core", record.core()}}, out);
  }
}

using Pids = std::map<std::string, std::uint32_t>;

// By name.
Pids pids_of_racks(const control::TraceReply& trace) {
  Pids pids;
  for (const control::RoundRecord& record : trace.records()) {
    for (const control::RackSpan& rack : record.racks()) {
      pids.emplace(rack.rack(), kFirstRackPid + static_cast<std::uint32_t>(pids.size()));
    }
  }
  return pids;
}

void add_racks(const control::RoundRecord& record, const Pids& pids, Trace& out) {
  for (const control::RackSpan& rack : record.racks()) {
    const TraceLane lane{.pid = pids.at(rack.rack()),
                         .tid = 2 * record.core() + static_cast<std::uint32_t>(record.round() % 2)};
    out.name_thread(lane,
                    fmt::format("core {}, {} rounds", record.core(), parity_of(record.round())));
    out.span(lane, {"sums and replies", rack.first_ns(), rack.last_ns()},
             {{"round", record.round()}, {"core", record.core()}});
  }
}

void name_processes(const control::TraceReply& trace, Trace& out) {
  std::set<std::uint32_t> cores;
  std::map<std::uint32_t, std::string> workers;
  for (const control::RoundRecord& record : trace.records()) {
    cores.insert(record.core());
    for (const control::WorkerSpan& worker : record.workers()) {
      const std::uint32_t index = worker.worker_index();
      workers.emplace(index, fmt::format("worker {}", index));
    }
  }
  for (const control::Member& member : trace.members()) {
    if (!member.rack().empty()) continue;
    workers[member.worker_index()] =
        fmt::format("worker {} ({}, pid {}, {})", member.worker_index(), member.host(),
                    member.process_id(), member.transport());
  }
  for (const std::uint32_t core : cores) {
    out.name_process(kFirstCorePid + core, fmt::format("core {}", core));
  }
  for (const auto& [index, name] : workers) out.name_process(kFirstWorkerPid + index, name);
}

}  // namespace

std::string chrome_trace(const std::string& job, const control::TraceReply& trace) {
  Trace out(origin_of(trace));
  name_processes(trace, out);
  const Pids racks = pids_of_racks(trace);
  for (const auto& [name, pid] : racks) out.name_process(pid, "rack " + name);
  for (const control::RoundRecord& record : trace.records()) {
    add_core(record, out);
    add_workers(record, out);
    add_racks(record, racks, out);
  }
  const ordered_json all = {
      {"displayTimeUnit", "ms"}, {"otherData", {{"job", job}}}, {"traceEvents", out.take()}};
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub::phubctl

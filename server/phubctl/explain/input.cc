#include "server/phubctl/explain/input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/text/table.h"
#include "server/phubctl/explain/causes.h"

namespace phub::phubctl {
namespace {

constexpr double kInputShareMin = 0.10;  // of a step: below it nothing is worth a sentence
constexpr double kAlikeShare = 0.05;  // workers so close to the slowest hold up the round as well
constexpr std::size_t kNamedMax = 3;

struct Worker {
  const control::Member* member = nullptr;
  StepWaits times;

  // The share of its step in which others may wait for it.
  double own_share() const { return 1.0 - times.exchange_share(); }
};

std::string name_of(const Worker& worker) {
  return fmt::format("worker {} ({}, pid {})", worker.member->worker_index(), worker.member->host(),
                     worker.member->process_id());
}

// Nothing: it does not say.
std::optional<StepWaits> times_of(const control::Member& member) {
  if (!member.has_step_waits()) return {};
  const auto times = step_waits_from(member.step_waits());
  return times ? std::optional(*times) : std::nullopt;
}

bool trains_here(const control::Member& member) {
  return member.rack().empty() && !member.left() && !member.lost();
}

std::vector<Worker> workers_that_say(const control::JobInfo& job) {
  std::vector<Worker> workers;
  for (const control::Member& member : job.members()) {
    if (!trains_here(member)) continue;
    if (const auto times = times_of(member)) workers.push_back({&member, *times});
  }
  return workers;
}

bool waits_for_all(const control::JobInfo& job) { return job.spec().rounds().quorum() == 0; }

// Those that hold up the round, with the largest input share first. With a quorum they are all.
std::vector<Worker> slowest(const control::JobInfo& job, std::vector<Worker> workers) {
  if (workers.empty()) return workers;
  const double most = std::ranges::max(workers, {}, &Worker::own_share).own_share();
  if (waits_for_all(job)) {
    std::erase_if(workers,
                  [&](const Worker& worker) { return worker.own_share() < most - kAlikeShare; });
  }
  std::ranges::stable_sort(workers, std::greater(),
                           [](const Worker& worker) { return worker.times.input_share(); });
  return workers;
}

// What a step would be shorter by, as a share of it, if nobody waited for input.
double share_at_stake(const std::vector<Worker>& workers) {
  double own = 0.0;
  double compute = 0.0;
  for (const Worker& worker : workers) {
    own = std::max(own, worker.own_share());
    compute = std::max(compute, worker.times.compute_share());
  }
  return own - compute;
}

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
}

// "source 80.0 %, memory 20.0 %"; empty: it does not count them.
std::string origins_text(const StepWaits& times) {
  std::vector<std::string> words;
  for (const auto& [name, count] :
       {std::pair("source", times.from_source), std::pair("disk", times.from_disk),
        std::pair("memory", times.from_memory), std::pair("peers", times.from_peers)}) {
    if (count > 0)
      words.push_back(fmt::format("{} {}", name, human_share(share(count, times.counted()))));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// What more threads could do. Of a program that is not phub-worker nothing is known.
std::string threads_cure(const StepWaits& times) {
  if (times.cpus == 0) {
    return "give its data loader more threads or processes, a faster store, or smaller samples";
  }
  constexpr std::string_view kBench =
      "on that host `phub-worker data bench CONFIG` shows the rate of each stage";
  if (times.input_threads >= times.cpus) {
    return fmt::format(
        "{}; its {} data.threads have all of its {} CPUs, so give it more CPUs or "
        "pack smaller images (`phub-worker data pack`)",
        kBench, times.input_threads, times.cpus);
  }
  if (times.input_threads == 0) {
    return fmt::format(
        "{}; its batches are made on the training's thread, so set data.threads if "
        "some of its {} CPUs are idle",
        kBench, times.cpus);
  }
  return fmt::format("{}; raise data.threads, now {}, if some of its {} CPUs are idle", kBench,
                     times.input_threads, times.cpus);
}

// What the place where most samples come from says.
std::string origin_cure(const StepWaits& times) {
  constexpr double kMost = 0.5;
  if (times.cpus == 0) return "";
  const std::uint64_t all = times.counted();
  if (all == 0) {
    return "; keep decoded images (data.cache.memory_mib), copies of a slow store "
           "(data.cache.path), or the set in the workers' memories (data.spread)";
  }
  if (share(times.from_source, all) >= kMost) {
    return fmt::format(
        "; {} of its samples come from the source, so its cache is still being "
        "filled in the first epoch, or is too small (data.cache.disk_mib, "
        "data.cache.memory_mib, data.spread.memory_mib)",
        human_share(share(times.from_source, all)));
  }
  if (share(times.from_peers, all) >= kMost) {
    return fmt::format(
        "; {} of its samples come from other workers, so look at the network "
        "between them (`phubctl doctor --peer`)",
        human_share(share(times.from_peers, all)));
  }
  if (share(times.from_disk, all) >= kMost) {
    return fmt::format(
        "; {} of its samples come from copies on its disk, so keep decoded images "
        "(data.cache.memory_mib) or pack smaller ones (`phub-worker data pack`)",
        human_share(share(times.from_disk, all)));
  }
  return "; most samples are in memory, so what takes long is to decode and to crop them: pack "
         "smaller images (`phub-worker data pack`)";
}

std::string others_text(const std::vector<Worker>& bound) {
  std::vector<std::string> words;
  for (std::size_t i = 1; i < std::min(bound.size(), kNamedMax); ++i) {
    words.push_back(
        fmt::format("{} {}", name_of(bound[i]), human_share(bound[i].times.input_share())));
  }
  if (words.empty()) return "";
  const std::size_t more = bound.size() - 1 - words.size();
  return fmt::format(" So do {}{}.", fmt::join(words, ", "),
                     more == 0 ? "" : fmt::format(", and {} more", more));
}

// The others wait for it in the exchange.
std::string waiting_text(const std::vector<Worker>& all, const std::vector<Worker>& bound) {
  if (all.size() <= bound.size()) return "";
  const Worker& most =
      std::ranges::max(all, {}, [](const Worker& worker) { return worker.times.exchange_share(); });
  return fmt::format(" Each round waits for it: {} spends {} of its steps in the exchange.",
                     name_of(most), human_share(most.times.exchange_share()));
}

}  // namespace

std::optional<InputBound> input_bound(const control::JobInfo& job) {
  const std::vector<Worker> all = workers_that_say(job);
  std::vector<Worker> bound = slowest(job, all);
  std::erase_if(bound, [](const Worker& worker) {
    return worker.times.input_share() < kInputShareMin || worker.times.steps < kRoundsToBlame;
  });
  if (bound.empty()) return {};
  const bool is_synchronous = waits_for_all(job);
  const Worker& first = bound.front();
  const double at_stake = is_synchronous ? share_at_stake(all) : first.times.input_share();
  if (at_stake < kInputShareMin) return {};  // others compute as long
  InputBound found{
      .reason = {.topic = "input",
                 .what = fmt::format(
                     "Input is the bound: {} waits for its samples {} of its step of {}, and "
                     "computes {} of it.{}{}",
                     name_of(first), human_share(first.times.input_share()),
                     human_time(first.times.step_seconds()),
                     human_share(first.times.compute_share()), others_text(bound),
                     is_synchronous ? waiting_text(all, bound) : ""),
                 .cure = threads_cure(first.times) + origin_cure(first.times),
                 .seconds = at_stake * first.times.step_seconds()},
      .workers = {}};
  for (const Worker& worker : bound) found.workers.push_back(worker.member->worker_index());
  return found;
}

std::optional<double> input_share(const control::JobInfo& job) {
  const std::vector<Worker> workers = slowest(job, workers_that_say(job));
  if (workers.empty()) return {};
  return workers.front().times.input_share();
}

std::string steps_text(const control::JobInfo& job, std::size_t rows) {
  std::vector<std::pair<const control::Member*, std::optional<StepWaits>>> all;
  bool says = false;
  for (const control::Member& member : job.members()) {
    if (!member.rack().empty()) continue;
    all.emplace_back(&member, times_of(member));
    says = says || all.back().second.has_value();
  }
  if (!says) return "";
  if (all.size() > rows) {
    std::ranges::stable_sort(all, std::greater(), [](const auto& entry) {
      return entry.second ? entry.second->input_share() : -1.0;
    });
  }
  Table table(">WORKER|>STEP|>INPUT|>EXCHANGE|>COMPUTE|SAMPLES FROM");
  for (std::size_t i = 0; i < std::min(all.size(), rows); ++i) {
    const auto& [member, times] = all[i];
    const std::string worker = std::to_string(member->worker_index());
    if (!times) {
      table.add({worker, "-", "-", "-", "-", "does not say"});
      continue;
    }
    const std::string origins = origins_text(*times);
    table.add({worker, human_time(times->step_seconds()), human_share(times->input_share()),
               human_share(times->exchange_share()), human_share(times->compute_share()),
               origins.empty() ? "-" : origins});
  }
  std::string text = table.to_string();
  if (all.size() > rows) text += fmt::format("... {} more workers\n", all.size() - rows);
  return text;
}

nlohmann::ordered_json steps_json(const control::JobInfo& job) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const control::Member& member : job.members()) {
    if (!member.rack().empty()) continue;
    const auto times = times_of(member);
    all.push_back({{"worker_index", member.worker_index()}, {"says", times.has_value()}});
    if (!times) continue;
    all.back().update({{"steps", times->steps},
                       {"step_seconds", times->step_seconds()},
                       {"input_share", times->input_share()},
                       {"exchange_share", times->exchange_share()},
                       {"compute_share", times->compute_share()},
                       {"samples", times->samples},
                       {"from_source", times->from_source},
                       {"from_disk", times->from_disk},
                       {"from_memory", times->from_memory},
                       {"from_peers", times->from_peers},
                       {"input_threads", times->input_threads},
                       {"cpus", times->cpus}});
  }
  return all;
}

}  // namespace phub::phubctl

#include "server/phubctl/explain/causes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/text/table.h"
#include "server/phubctl/explain/input.h"
#include "server/phubctl/explain/racks.h"

namespace phub::phubctl {
namespace {

// Below these shares of a round something is not worth a sentence.
constexpr double kLateShareMin = 0.05;
constexpr double kWaitShareMin = 0.15;
constexpr double kServerShareMin = 0.10;
constexpr double kTransferShareMin = 0.20;
constexpr double kComputeShareMin = 0.50;
constexpr double kSkippedShareMin = 0.01;  // a dynamic loss scale probes one step in thousands
constexpr double kSaturatedShare = 0.90;
constexpr double kWorkShareMin = 0.30;  // the rest of a full core's time goes into the transport
// Waking a sleeping core takes tens of microseconds: a part of rounds this short.
constexpr double kShortRoundSeconds = 0.002;

double share_of_round(const control::JobTiming& timing, double seconds) {
  return timing.round_seconds() > 0.0 ? seconds / timing.round_seconds() : 0.0;
}

// What the server and the wires take: everything but computing and waiting for workers.
double server_seconds(const control::JobTiming& timing) {
  return timing.push_seconds() + timing.aggregate_seconds() + timing.reply_seconds();
}

std::string name_of(const control::JobInfo& job, std::uint32_t worker) {
  for (const control::Member& member : job.members()) {
    if (member.rack().empty() && member.worker_index() == worker) {
      return fmt::format("worker {} ({}, pid {})", worker, member.host(), member.process_id());
    }
  }
  return fmt::format("worker {}", worker);
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

const control::WorkerTiming* last_worker(const control::JobTiming& timing) {
  const auto& workers = timing.workers();
  const auto last = std::max_element(
      workers.begin(), workers.end(),
      [](const auto& a, const auto& b) { return a.last_share() < b.last_share(); });
  return workers.size() < 2 ? nullptr : &*last;
}

bool is_straggler(const control::JobTiming& timing, const control::WorkerTiming& worker) {
  const double even_share = 1.0 / timing.workers_size();
  return worker.last_share() >= 0.5 && worker.last_share() > 1.5 * even_share &&
         share_of_round(timing, worker.late_seconds()) >= kLateShareMin;
}

const control::CoreJob* on_core(const control::CoreInfo& core, std::uint64_t job_id) {
  const auto found =
      std::find_if(core.jobs().begin(), core.jobs().end(),
                   [job_id](const control::CoreJob& job) { return job.job_id() == job_id; });
  return found == core.jobs().end() ? nullptr : &*found;
}

// The other jobs of a core, the busiest first: "\"b\" 40.0 %, \"c\" 10.0 %" of the jobs' work
// there.
std::string others_on(const control::CoreInfo& core, std::uint64_t job_id) {
  double all = 0.0;
  std::vector<const control::CoreJob*> others;
  for (const control::CoreJob& other : core.jobs()) {
    all += other.busy_seconds();
    if (other.job_id() != job_id) others.push_back(&other);
  }
  std::sort(others.begin(), others.end(),
            [](const auto* a, const auto* b) { return a->busy_seconds() > b->busy_seconds(); });
  std::vector<std::string> words;
  for (const control::CoreJob* other : others) {
    words.push_back(fmt::format("\"{}\" of tenant {} ({} of the jobs' work there)", other->name(),
                                other->tenant(),
                                human_share(all > 0.0 ? other->busy_seconds() / all : 0.0)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// The share of the time between the looks that a core spent on sums and updates, of all its jobs. A
// core that polls is busy without them; what the transport takes is not in it.
double work_share(int index, const Looks& server) {
  const double seconds = server.now.uptime_seconds() - server.before.uptime_seconds();
  double work = 0.0;
  for (const control::CoreJob& job : server.now.cores(index).jobs()) {
    const control::CoreJob* const before = index < server.before.cores_size()
                                               ? on_core(server.before.cores(index), job.job_id())
                                               : nullptr;
    work += job.busy_seconds() - (before == nullptr ? 0.0 : before->busy_seconds());
  }
  return seconds > 0.0 ? std::clamp(work / seconds, 0.0, 1.0) : 0.0;
}

// One worker is the last in most rounds, by at least a twentieth of a round. Nothing where `input`
// says why.
std::optional<Reason> straggler(const control::JobInfo& job,
                                const std::optional<InputBound>& input) {
  const control::JobTiming& timing = job.timing();
  const control::WorkerTiming* const last = last_worker(timing);
  if (timing.rounds() < kRoundsToBlame) return {};
  if (last == nullptr || !is_straggler(timing, *last)) return {};
  if (input && std::ranges::count(input->workers, last->worker_index()) > 0) return {};
  return Reason{
      .topic = "straggler",
      .what = fmt::format(
          "{} is a straggler: it was the last in {} of the last {} rounds, {} after "
          "the median worker on average, {} of a round. The others wait for it.",
          capitalised(name_of(job, last->worker_index())), human_share(last->last_share()),
          timing.rounds(), human_time(last->late_seconds()),
          human_share(share_of_round(timing, last->late_seconds()))),
      .cure =
          "look at that host: other processes on its CPUs or GPU, clocks, input data, its link "
          "(`phubctl doctor --peer`); or give that worker less work",
      .seconds = last->late_seconds()};
}

// The wait for the slowest is long, and no single worker is to blame, nor is `input`.
std::optional<Reason> uneven_work(const control::JobInfo& job,
                                  const std::optional<InputBound>& input) {
  const control::JobTiming& timing = job.timing();
  const control::WorkerTiming* const last = last_worker(timing);
  if (timing.rounds() < kRoundsToBlame) return {};
  if (input || last == nullptr || is_straggler(timing, *last)) return {};
  const double share = share_of_round(timing, timing.wait_seconds());
  if (share < kWaitShareMin) return {};
  return Reason{
      .topic = "uneven work",
      .what = fmt::format("The workers wait {} of a round ({}) for the slowest, and no one is to "
                          "blame alone: {} was the last most often, in {} of the rounds.",
                          human_time(timing.wait_seconds()), human_share(share),
                          name_of(job, last->worker_index()), human_share(last->last_share())),
      .cure =
          "every round waits for all workers: make their steps alike (batches of one size, no "
          "data loading in the step), and give each its own CPUs",
      .seconds = timing.wait_seconds()};
}

// Cores that have the job's chunks are nearly always busy, and not with waiting for work.
std::optional<Reason> core_saturation(const control::JobInfo& job, const Looks& server) {
  const control::JobTiming& timing = job.timing();
  const double at_stake = timing.aggregate_seconds() + timing.reply_seconds();
  if (share_of_round(timing, server_seconds(timing)) < kServerShareMin) return {};
  std::vector<std::string> words;
  for (int i = 0; i < server.now.cores_size(); ++i) {
    const control::CoreInfo& core = server.now.cores(i);
    const double work = work_share(i, server);
    if (on_core(core, job.job_id()) == nullptr) continue;
    if (core.busy_share() < kSaturatedShare || work < kWorkShareMin) continue;
    const std::string others = others_on(core, job.job_id());
    words.push_back(fmt::format("core {} is busy {} of the time ({} with sums and updates){}",
                                core.core(), human_share(core.busy_share()), human_share(work),
                                others.empty() ? ", for this job alone" : ", also for " + others));
  }
  if (words.empty()) return {};
  return Reason{
      .topic = "core saturation",
      .what = capitalised(fmt::format("{}. A round costs {} of work here, and its last "
                                      "reply goes out {} after the last push.",
                                      fmt::join(words, "; "), human_time(timing.core_seconds()),
                                      human_time(at_stake))),
      .cure =
          "give the server more cores (`cores`), share the job between two servers, or make "
          "fewer, larger chunks (`chunk_kib`) and a 16-bit wire type",
      .seconds = server_seconds(timing)};
}

// Pushes wait because other jobs have their turn.
std::optional<Reason> fair_share_queue(const control::JobInfo& job,
                                       const control::ServerInfo& server) {
  std::vector<std::string> words;
  for (const control::CoreInfo& core : server.cores()) {
    const control::CoreJob* const own = on_core(core, job.job_id());
    if (own == nullptr || own->queued_pushes() == 0 || core.jobs_size() < 2) continue;
    words.push_back(fmt::format("{} on core {}, beside {}", human_count(own->queued_pushes()),
                                core.core(), others_on(core, job.job_id())));
  }
  if (words.empty()) return {};
  const control::JobTiming& timing = job.timing();
  return Reason{.topic = "fair share",
                .what = fmt::format("Pushes wait for their turn now: {}.", fmt::join(words, "; ")),
                .cure = fmt::format("tenant {} has its share; raise its weight, move a job to "
                                    "another server, or give this one more cores",
                                    job.tenant()),
                .seconds = timing.push_seconds() + timing.aggregate_seconds()};
}

// Workers that move their gradients by tcp while that costs.
std::optional<Reason> slow_transport(const control::JobInfo& job) {
  const control::JobTiming& timing = job.timing();
  const double share = share_of_round(timing, server_seconds(timing));
  if (share < kTransferShareMin) return {};
  std::vector<std::string> words;
  bool could_be_shm = false;
  for (const control::Member& member : job.members()) {
    if (member.left() || !member.rack().empty() || member.transport() != "tcp") continue;
    const bool has_shm_neighbour = std::any_of(
        job.members().begin(), job.members().end(), [&member](const control::Member& other) {
          return other.transport() == "shm" && other.host() == member.host();
        });
    could_be_shm = could_be_shm || has_shm_neighbour;
    words.push_back(fmt::format(
        "{}{}{}", name_of(job, member.worker_index()),
        has_shm_neighbour ? ", on the server's own host" : "",
        member.transport_reason().empty() ? "" : ": \"" + member.transport_reason() + "\""));
  }
  if (words.empty()) return {};
  return Reason{
      .topic = "transport",
      .what =
          fmt::format("{} of {} workers move their gradients by tcp, while pushes, sums and "
                      "replies take {} of a round: {}.",
                      words.size(), workers_here(job), human_share(share), fmt::join(words, "; ")),
      .cure = could_be_shm
                  ? "on the server's host take `transport: \"auto\"` (or \"shm\"): it moves "
                    "no byte"
                  : "take `transport: \"auto\"`: shm on the server's host, verbs where both "
                    "ends have RDMA (`phubctl doctor` says why not); a 16-bit `wire_type` "
                    "halves the bytes",
      .seconds = server_seconds(timing)};
}

// RDMA ports that are not active or count errors.
std::optional<Reason> network_port(const control::JobInfo& job, const control::ServerInfo& server) {
  const bool has_verbs = std::any_of(job.members().begin(), job.members().end(),
                                     [](const auto& m) { return m.transport() == "verbs"; });
  std::vector<std::string> words;
  for (const control::PortInfo& port : server.ports()) {
    const std::string name = human_port(port.device(), port.port());
    if (port.state() != "active") words.push_back(fmt::format("{} is {}", name, port.state()));
    for (const control::PortCounter& counter : port.counters()) {
      if (!has_verbs || counter.value() == 0 || counter.kind().empty()) continue;
      words.push_back(fmt::format("{} has counted {} {} ({})", name, human_count(counter.value()),
                                  counter.name(), counter.kind()));
    }
  }
  if (words.empty()) return {};
  return Reason{.topic = "network port",
                .what = fmt::format("RDMA port {}.", fmt::join(words, "; ")),
                .cure =
                    "`phubctl doctor` on both hosts names what is wrong with the cable, the "
                    "switch's flow control or the MTU; counters are since the port came up",
                .seconds = job.timing().push_seconds() + job.timing().reply_seconds()};
}

// Rounds are so short that waking a core that sleeps is a part of them.
std::optional<Reason> sleeping_cores(const control::JobInfo& job,
                                     const control::ServerInfo& server) {
  const control::JobTiming& timing = job.timing();
  if (!server.waiting().starts_with("adaptive") || timing.round_seconds() > kShortRoundSeconds ||
      share_of_round(timing, server_seconds(timing)) < kTransferShareMin) {
    return {};
  }
  return Reason{
      .topic = "waiting policy",
      .what =
          fmt::format("A round takes {} only, and the cores wait {}: to wake one that sleeps is "
                      "a part of each round.",
                      human_time(timing.round_seconds()), server.waiting()),
      .cure =
          "where CPUs are to spare, `waiting { policy: \"poll\" }` on the server; else let them "
          "spin longer (`spin_iterations`)",
      .seconds = server_seconds(timing)};
}

// More steps or updates left out, because gradients were not finite, than finding a loss scale
// needs.
std::optional<Reason> skipped_steps(const control::JobInfo& job) {
  const control::JobStatistics& done = job.statistics();
  if (done.rounds() == 0) return {};
  if (done.updates_skipped() > 0) {
    return Reason{
        .topic = "skipped steps",
        .what = fmt::format("{} updates of single chunks were left out, as the sum of their "
                            "gradients was not finite.",
                            done.updates_skipped()),
        .cure =
            "lower `loss_scale.factor`, or use `loss_scale { dynamic { } }`, which leaves out "
            "whole steps and adapts; if it goes on, lower the learning rate"};
  }
  const double share =
      static_cast<double>(done.rounds_skipped()) / static_cast<double>(done.rounds());
  if (share < kSkippedShareMin) return {};
  return Reason{
      .topic = "skipped steps",
      .what = fmt::format("{} of {} rounds ({}) were left out, because a gradient was too large "
                          "for the wire: their work is lost.",
                          done.rounds_skipped(), done.rounds(), human_share(share)),
      .cure =
          "a lower `dynamic.initial` or more `growth_steps`; if the scale is small already, "
          "lower the learning rate or warm up for longer",
      .seconds = share * job.timing().round_seconds()};
}

// The workers compute most of the time. The backward pass overlaps the pushes: where nothing else
// explains these (`push_is_compute`), they are its. A server cannot tell input from computing, so
// the time at stake for input, `input_seconds`, is taken off.
std::optional<Reason> compute_bound(const control::JobInfo& job, bool push_is_compute,
                                    double input_seconds) {
  const control::JobTiming& timing = job.timing();
  const double seconds =
      timing.compute_seconds() + (push_is_compute ? timing.push_seconds() : 0.0) - input_seconds;
  const double share = share_of_round(timing, seconds);
  const double reply = timing.racks_seconds() + timing.aggregate_seconds() + timing.reply_seconds();
  if (share < kComputeShareMin || share_of_round(timing, reply) >= kServerShareMin) return {};
  return Reason{.topic = "compute",
                .what = fmt::format(
                    "The workers compute for {} of a round ({}{}): the server is not the "
                    "bottleneck. It replies {} after the last push; at once would make a "
                    "round {} shorter.",
                    human_time(seconds), human_share(share),
                    push_is_compute ? ", with the pushes, which the backward pass overlaps" : "",
                    human_time(reply), human_share(share_of_round(timing, reply))),
                .cure = "faster or more workers, a smaller model or batch; not the server",
                .seconds = seconds};
}

}  // namespace

std::optional<Reason> standstill(const control::JobInfo& job, const Looks& server) {
  constexpr double kRoundsAtLeast = 3.0;
  const control::JobInfo& before = server.job_before;
  const double seconds = server.now.uptime_seconds() - server.before.uptime_seconds();
  if (before.job_id() != job.job_id() || seconds < kRoundsAtLeast * job.timing().round_seconds() ||
      before.statistics().chunks_completed() != job.statistics().chunks_completed()) {
    return {};
  }
  std::uint64_t most = 0;
  for (const control::Member& member : job.members()) {
    if (member.rack().empty()) most = std::max(most, member.pushes());
  }
  std::vector<std::string> behind;
  for (const control::Member& member : job.members()) {
    if (!member.rack().empty() || member.pushes() >= most) continue;
    behind.push_back(name_of(job, member.worker_index()));
  }
  return Reason{
      .topic = "standstill",
      .what = fmt::format(
          "Nothing was completed for {} or longer, in which {:.0f} rounds were "
          "done before. {}",
          human_time(seconds), seconds / job.timing().round_seconds(),
          behind.empty()
              ? fmt::format("All workers{} have pushed as much: none waits for another{}.",
                            job.rack().empty() ? "" : " of this rack",
                            job.rack().empty() ? "" : "; other racks may be what it waits for")
              : fmt::format("The others wait for the pushes of {}.", fmt::join(behind, ", "))),
      .cure =
          "look at that process: stopped, in a debugger, without data, in its first evaluation "
          "or writing a checkpoint",
      .seconds = seconds};
}

std::vector<Reason> causes_of(const control::JobInfo& job, const Looks& server) {
  const auto saturation = core_saturation(job, server);
  const auto transport = slow_transport(job);
  const bool push_is_compute = !saturation && !transport;
  const auto input = input_bound(job);
  std::vector<Reason> reasons;
  for (const std::optional<Reason>& reason :
       {input ? std::optional(input->reason) : std::nullopt, straggler(job, input),
        uneven_work(job, input), other_racks(job, server), saturation,
        fair_share_queue(job, server.now), transport, network_port(job, server.now),
        sleeping_cores(job, server.now), skipped_steps(job),
        compute_bound(job, push_is_compute, input ? input->reason.seconds : 0.0)}) {
    if (reason) reasons.push_back(*reason);
  }
  return reasons;
}

}  // namespace phub::phubctl

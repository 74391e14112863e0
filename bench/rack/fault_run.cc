#include "bench/rack/fault_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>

#include "bench/compare/interleave.h"
#include "bench/rack/faults.h"
#include "bench/rack/scenario.h"
#include "bench/rack/training.h"

namespace phub::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Ends = std::vector<std::optional<WorkerEnd>>;

constexpr unsigned kEndless = 1'000'000;

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

// Workers that exchange round after round until something is wrong.
class ExchangingWorkers final : public RackWorkers {
 public:
  ExchangingWorkers(ProcessGroup& group, std::uint32_t workers, unsigned rounds)
      : group_(group), awaited_(workers, true) {
    group_.tell(fmt::format("run 0 {}", rounds));
  }

  Result<WorkerEnd> next_end(Deadline deadline) override {
    PHUB_ASSIGN_OR_RETURN(const ProcessGroup::Reply reply, group_.next_reply(awaited_, deadline));
    awaited_[reply.worker] = false;
    WorkerEnd end{.worker = reply.worker, .kind = EndKind::kKilled, .when = reply.when};
    if (reply.text.starts_with("done ")) end.kind = EndKind::kDone;
    if (reply.text.starts_with("error ")) {
      end.kind = EndKind::kError;
      end.error = reply.text.substr(6);
    }
    return end;
  }
  pid_t pid(std::uint32_t worker) const override { return group_.pid(worker); }

 private:
  ProcessGroup& group_;
  std::vector<bool> awaited_;
};

// How many hosts of the kind come before the rack's `index`-th.
std::uint32_t number_of(const RackScenario& scenario, const RackFault& fault, bool is_server) {
  std::uint32_t number = is_server ? fault.server() : fault.worker();
  for (std::uint32_t rack = 0; rack < fault.rack(); ++rack) {
    const Rack& sizes = scenario.racks(static_cast<int>(rack));
    number += is_server ? sizes.servers() : sizes.workers();
  }
  return number;
}

Status inject(const RackScenario& scenario, const Fabric& fabric, const RackFault& fault,
              const RackWorkers& workers, const FaultPlaces& there) {
  switch (fault.kind()) {
    case RackFault::KILL_SERVER:
      there.cluster.kill(number_of(scenario, fault, true));
      return {};
    case RackFault::KILL_WORKER:
      ::kill(workers.pid(number_of(scenario, fault, false)), SIGKILL);
      return {};
    case RackFault::LINK_DOWN: {
      const auto host =
          std::find_if(fabric.hosts.begin(), fabric.hosts.end(),
                       [&](const RackHost& one) { return one.name == target_of(fault); });
      return there.testbed.cut_link(*host);
    }
    case RackFault::UPLINK_DOWN:
      return there.testbed.cut_uplink(fault.rack());
    case RackFault::SLOW_START:
      return {};  // it began so
  }
  return {};
}

// Takes the workers' ends until the deadline, or until all have ended.
Status collect(RackWorkers& workers, Deadline deadline, Ends& ends) {
  while (std::find(ends.begin(), ends.end(), std::nullopt) != ends.end()) {
    Result<WorkerEnd> end = workers.next_end(deadline);
    if (!end && end.error().code() == Code::kDeadlineExceeded) return {};
    if (!end) return end.error();
    ends[end->worker] = std::move(*end);
  }
  return {};
}

Result<std::vector<FaultedWorker>> watch(const RackScenario& scenario, const Fabric& fabric,
                                         RackWorkers& workers, const FaultPlaces& there,
                                         Clock::time_point start) {
  std::vector<RackFault> faults(scenario.faults().begin(), scenario.faults().end());
  std::stable_sort(faults.begin(), faults.end(),
                   [](const RackFault& a, const RackFault& b) { return a.at_s() < b.at_s(); });
  Ends ends(workers_of(scenario));
  Clock::time_point last = start;
  std::optional<Clock::time_point> first;
  Progress progress(faults.size(), Progress::Elsewhere::kLines);
  std::size_t number = 0;
  for (const RackFault& fault : faults) {
    progress.show(-1.0, fmt::format("fault {} of {} comes {} s after the start", ++number,
                                    faults.size(), fault.at_s()));
    const Clock::time_point moment = start + seconds(fault.at_s());
    while (Clock::now() < moment) {
      PHUB_RETURN_IF_ERROR(collect(workers, moment, ends));
      if (std::find(ends.begin(), ends.end(), std::nullopt) == ends.end()) break;
    }
    last = std::max(Clock::now(), start + seconds(fault.for_s()));
    if (!first) first = fault.kind() == RackFault::SLOW_START ? start : last;
    PHUB_RETURN_IF_ERROR(inject(scenario, fabric, fault, workers, there));
  }
  progress.show(-1.0, fmt::format("workers have {} s to end", scenario.fault_deadline_s()));
  PHUB_RETURN_IF_ERROR(
      collect(workers, last + std::chrono::seconds(scenario.fault_deadline_s()), ends));
  std::vector<FaultedWorker> judged;
  for (const RackHost& host : fabric.hosts) {
    if (host.workers == 0) continue;
    const auto& end = ends[judged.size()];
    judged.push_back(judge(scenario, fabric, host, end ? &*end : nullptr, *first));
  }
  return judged;
}

}  // namespace

Result<std::vector<FaultedWorker>> run_faults(const RackScenario& scenario, const Fabric& fabric,
                                              const FaultPlaces& there) {
  const bool is_slow = scenario.faults(0).kind() == RackFault::SLOW_START;
  Clock::time_point start = Clock::now();
  if (scenario.has_training()) {
    PHUB_ASSIGN_OR_RETURN(const auto training, TrainingRun::start(fabric, scenario, there.cluster,
                                                                  there.testbed, there.places));
    PHUB_RETURN_IF_ERROR(training->begin());
    if (!is_slow) start = Clock::now();
    return watch(scenario, fabric, *training, there, start);
  }
  const RackExchange& exchange = scenario.exchange();
  const std::chrono::seconds timeout(exchange.timeout_s());
  PHUB_ASSIGN_OR_RETURN(const auto system, start_exchange(fabric, scenario, there.cluster,
                                                          there.testbed, there.places));
  const unsigned before = scenario.faults(0).at_round();
  if (!is_slow) PHUB_RETURN_IF_ERROR(verify(*system, 1, timeout));
  if (before > 0) {
    PHUB_RETURN_IF_ERROR(run_block(*system, {.iterations = before, .warm_up = 0}, timeout));
  }
  if (!system->failure.empty()) return Status(Code::kDataLoss, system->failure);
  ExchangingWorkers workers(*system->group, workers_of(scenario),
                            is_slow ? exchange.rounds() : kEndless);
  if (!is_slow) start = Clock::now();
  return watch(scenario, fabric, workers, there, start);
}

FaultedWorker judge(const RackScenario& scenario, const Fabric& fabric, const RackHost& host,
                    const WorkerEnd* end, Clock::time_point fault) {
  const auto any = [&scenario](const auto& holds) {
    return std::any_of(scenario.faults().begin(), scenario.faults().end(), holds);
  };
  FaultedWorker worker{.host = host.name};
  if (end == nullptr) {
    worker.wrong = fmt::format("has not ended {} s after the fault", scenario.fault_deadline_s());
    return worker;
  }
  worker.kind = end->kind;
  worker.error = end->error;
  worker.seconds = std::chrono::duration<double>(end->when - fault).count();
  if (worker.seconds < 0) {
    worker.wrong = "ended before the fault: let it come earlier, or give the workers more to do";
  } else if (end->kind == EndKind::kDone) {
    if (!any([](const RackFault& one) { return one.kind() == RackFault::SLOW_START; })) {
      worker.wrong = "has done all of its rounds in spite of the fault";
    }
  } else if (end->kind == EndKind::kKilled) {
    const auto is_victim = [&host](const RackFault& one) {
      return one.kind() == RackFault::KILL_WORKER && target_of(one) == host.name;
    };
    if (!any(is_victim)) worker.wrong = "died, and it is not the one that was to be killed";
  } else if (!any([&](const RackFault& one) {
               return names_fault(fabric, one, host, end->error);
             })) {
    worker.wrong = fmt::format("does not name who is at fault: {}", end->error);
  }
  return worker;
}

Status verdict(const std::vector<FaultedWorker>& workers) {
  for (const FaultedWorker& worker : workers) {
    if (worker.wrong.empty()) continue;
    return {worker.kind == EndKind::kHung ? Code::kDeadlineExceeded : Code::kFailedPrecondition,
            fmt::format("{} {}", worker.host, worker.wrong)};
  }
  return {};
}

}  // namespace phub::bench

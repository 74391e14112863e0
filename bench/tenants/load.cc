#include "bench/tenants/load.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <sstream>
#include <thread>

#include "bench/base/cpu_time.h"
#include "bench/processes/admin_call.h"
#include "bench/tenants/worker.h"
#include "common/base/affinity.h"

namespace phub::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kWorkerStartTimeout{30};
constexpr std::chrono::seconds kRestTimeout{10};
constexpr std::chrono::milliseconds kSettle{100};

template <typename Method, typename Request, typename Reply>
Status call(const PhubServer& server, Method method, const Request& request, Reply& reply) {
  return call_admin(server.address, method, request, reply)
      .with_context("asking " + server.address);
}

}  // namespace

Result<std::unique_ptr<TenantServer>> TenantServer::start(Places& places) {
  std::unique_ptr<TenantServer> tenants(new TenantServer(places));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> cpus, usable_cpus());
  PHUB_ASSIGN_OR_RETURN(tenants->server_,
                        start_server("phub-server", std::span(cpus).first(kServerCores),
                                     "heartbeat_deadline_ms: 600000\n",  // workers may be paused
                                     places));
  return tenants;
}

Status TenantServer::create_tenant(const std::string& name, std::uint32_t weight) {
  control::CreateTenantRequest request;
  request.set_name(name);
  request.mutable_quotas()->set_weight(weight);
  control::CreateTenantReply reply;
  return call(server_, &control::Admin::Stub::CreateTenant, request, reply);
}

Status TenantServer::start_process(const std::string& name, std::vector<std::string> words) {
  const std::string log = places_.fresh_path(words.front() + ".log");
  PHUB_ASSIGN_OR_RETURN(const std::string program, places_.program("phub-bench"));
  words.insert(words.begin(), program);
  PHUB_ASSIGN_OR_RETURN(auto process,
                        ChildProcess::start({.name = name, .command = words, .log_path = log}));
  job_of_.push_back(loads_.size());
  workers_.push_back(std::move(process));
  return {};
}

Status TenantServer::start(const Load& load) {
  const nlohmann::json options = TenantWorkerOptions{load, server_.address};
  const std::size_t first = workers_.size();
  for (std::uint32_t index = 0; index < load.workers; ++index) {
    PHUB_RETURN_IF_ERROR(
        start_process(fmt::format("worker {} of {}/{}", index, load.tenant, load.job),
                      {"tenant-worker", options.dump(), "--index", std::to_string(index)}));
  }
  for (std::size_t i = first; i < workers_.size(); ++i) {
    const auto line = workers_[i]->read_output_line(Clock::now() + kWorkerStartTimeout);
    if (!line) return line.error();
  }
  loads_.push_back(load);
  return {};
}

Status TenantServer::start_garbage() {
  return start_process("garbage", {"garbage-worker", server_.data_port});
}

Status TenantServer::run_only(const std::vector<std::size_t>& jobs) {
  const auto runs = [&](std::size_t job) {
    return std::find(jobs.begin(), jobs.end(), job) != jobs.end();
  };
  for (std::size_t i = 0; i < job_of_.size(); ++i) {
    ::kill(workers_[i]->pid(), runs(job_of_[i]) ? SIGCONT : SIGSTOP);
  }
  const auto deadline = Clock::now() + kRestTimeout;
  PHUB_ASSIGN_OR_RETURN(Totals before, progress());
  while (true) {
    std::this_thread::sleep_for(kSettle);
    PHUB_ASSIGN_OR_RETURN(Totals now, progress());
    std::size_t job = 0;
    while (job < loads_.size() && (runs(job) || now.exchanges[job] == before.exchanges[job])) ++job;
    if (job == loads_.size()) return {};
    if (Clock::now() > deadline) {
      return Status(Code::kDeadlineExceeded,
                    fmt::format("job {}/{} went on for {} s after its workers were stopped",
                                loads_[job].tenant, loads_[job].job, kRestTimeout.count()));
    }
    before = std::move(now);
  }
}

// What the workers' and the server's logs say.
std::string TenantServer::why_it_ended() const {
  std::string text = server_.process->log_tail();
  for (const auto& worker : workers_) text += worker->log_tail();
  return text;
}

// So far.
Result<Totals> TenantServer::progress() const {
  control::ListJobsReply listed;
  control::StatisticsReply statistics;
  PHUB_RETURN_IF_ERROR(
      call(server_, &control::Admin::Stub::ListJobs, control::ListJobsRequest(), listed));
  PHUB_RETURN_IF_ERROR(
      call(server_, &control::Admin::Stub::Statistics, control::StatisticsRequest(), statistics));
  Totals sums;
  for (const Load& load : loads_) {
    const auto job = std::find_if(listed.jobs().begin(), listed.jobs().end(), [&](const auto& j) {
      return j.state() == control::JOB_STATE_RUNNING && j.tenant() == load.tenant &&
             j.spec().name() == load.job;
    });
    if (job == listed.jobs().end()) {
      return Status(Code::kAborted,
                    fmt::format("job {}/{} does not run{}", load.tenant, load.job, why_it_ended()));
    }
    const control::JobStatistics& counted = job->statistics();
    sums.exchanges.push_back(static_cast<double>(counted.chunks_completed()) /
                             static_cast<double>(std::max<std::uint64_t>(1, counted.chunks())));
    sums.core_seconds.push_back(0);
    for (const control::CoreInfo& core : statistics.server().cores()) {
      for (const control::CoreJob& entry : core.jobs()) {
        if (entry.job_id() == job->job_id()) sums.core_seconds.back() += entry.busy_seconds();
      }
    }
  }
  return sums;
}

Status TenantServer::measure(double seconds, Totals& totals) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> cpus, usable_cpus());
  const std::span<const std::uint32_t> workers =
      std::span(cpus).subspan(cpus.size() > kServerCores ? kServerCores : 0);
  PHUB_ASSIGN_OR_RETURN(const Totals before, progress());
  PHUB_ASSIGN_OR_RETURN(const CpuTime cpu_before, cpu_time(workers));
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  PHUB_ASSIGN_OR_RETURN(const Totals after, progress());
  PHUB_ASSIGN_OR_RETURN(const CpuTime cpu_after, cpu_time(workers));
  const double passed = std::chrono::duration<double>(Clock::now() - start).count();
  totals.seconds += passed;
  totals.workers_busy += passed * cpu_after.busy_since(cpu_before);
  totals.exchanges.resize(loads_.size());
  totals.core_seconds.resize(loads_.size());
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    totals.exchanges[i] += after.exchanges[i] - before.exchanges[i];
    totals.core_seconds[i] += after.core_seconds[i] - before.core_seconds[i];
  }
  return {};
}

Result<std::uint64_t> TenantServer::drops() const {
  control::StatisticsReply reply;
  PHUB_RETURN_IF_ERROR(
      call(server_, &control::Admin::Stub::Statistics, control::StatisticsRequest(), reply));
  std::uint64_t count = 0;
  for (const control::Drop& drop : reply.server().drops()) count += drop.count();
  return count;
}

}  // namespace phub::bench

#include "bench/tenants/load.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "bench/tenants/cpu_time.h"
#include "common/base/affinity.h"
#include "proto/control.grpc.pb.h"

namespace phub::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartTimeout{30};
constexpr std::chrono::seconds kCallTimeout{10};
constexpr std::chrono::seconds kRestTimeout{10};
constexpr std::chrono::milliseconds kSettle{100};

template <typename Method, typename Request, typename Reply>
Status call(const std::string& address, Method method, const Request& request, Reply& reply) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  const auto stub =
      control::Admin::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
  if (status.ok()) return {};
  return {Code::kUnavailable, fmt::format("asking {}: {}", address, status.error_message())};
}

std::string field(const std::string& line, const std::string& name) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TenantServer>> TenantServer::start(std::uint32_t cores, Places& places) {
  std::unique_ptr<TenantServer> server(new TenantServer(cores, places));
  PHUB_ASSIGN_OR_RETURN(const std::string program, places.program("phub-server"));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> cpus, usable_cpus());
  const std::string path = places.fresh_path("phub-server.textproto");
  std::ofstream file(path);
  file << "control_address: \"127.0.0.1:0\"\ndata_address: \"127.0.0.1:0\"\nlog_level: \"warn\"\n"
       << "heartbeat_deadline_ms: 600000\n";  // workers may be paused
  for (std::uint32_t core = 0; core < cores; ++core) file << "cpus: " << cpus.at(core) << "\n";
  if (!file.flush()) return errno_status(path);
  PHUB_ASSIGN_OR_RETURN(server->server_,
                        ChildProcess::start({.name = "phub-server",
                                             .command = {program, "--config", path},
                                             .log_path = places.fresh_path("phub-server.log")}));
  PHUB_ASSIGN_OR_RETURN(const std::string line,
                        server->server_->read_output_line(Clock::now() + kStartTimeout));
  server->address_ = field(line, "control");
  server->data_port_ = field(line, "data");
  return server;
}

Status TenantServer::create_tenant(const std::string& name, std::uint32_t weight) {
  control::CreateTenantRequest request;
  request.set_name(name);
  request.mutable_quotas()->set_weight(weight);
  control::CreateTenantReply reply;
  return call(address_, &control::Admin::Stub::CreateTenant, request, reply);
}

Status TenantServer::start(const Load& load) {
  PHUB_ASSIGN_OR_RETURN(const std::string program, places_.program("phub-bench"));
  std::vector<ChildProcess*> started;
  for (std::uint32_t index = 0; index < load.workers; ++index) {
    PHUB_ASSIGN_OR_RETURN(
        auto worker, ChildProcess::start(
                         {.name = fmt::format("worker {} of {}/{}", index, load.tenant, load.job),
                          .command = {program,        "tenant-worker",
                                      "--server",     address_,
                                      "--tenant",     load.tenant,
                                      "--job",        load.job,
                                      "--workers",    std::to_string(load.workers),
                                      "--index",      std::to_string(index),
                                      "--elements",   std::to_string(load.elements),
                                      "--keys",       load.keys,
                                      "--rule",       std::string(name_of(load.rule)),
                                      "--dtype",      std::string(name_of(load.dtype)),
                                      "--transport",  load.transport,
                                      "--compute-us", std::to_string(load.compute_us),
                                      "--weight",     std::to_string(load.weight),
                                      "--spare-cpus", std::to_string(cores_)},
                          .log_path = places_.fresh_path("tenant-worker.log")}));
    started.push_back(worker.get());
    job_of_.push_back(loads_.size());
    workers_.push_back(std::move(worker));
  }
  for (ChildProcess* const worker : started) {
    const auto line = worker->read_output_line(Clock::now() + kStartTimeout);
    if (!line) return line.error();
  }
  loads_.push_back(load);
  return {};
}

Status TenantServer::start_garbage() {
  PHUB_ASSIGN_OR_RETURN(const std::string program, places_.program("phub-bench"));
  PHUB_ASSIGN_OR_RETURN(
      auto process,
      ChildProcess::start({.name = "garbage",
                           .command = {program, "garbage-worker", "--port", data_port_,
                                       "--spare-cpus", std::to_string(cores_)},
                           .log_path = places_.fresh_path("garbage.log")}));
  job_of_.push_back(loads_.size());
  workers_.push_back(std::move(process));
  return {};
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
  std::string text = server_->log_tail();
  for (const auto& worker : workers_) text += worker->log_tail();
  return text;
}

// So far.
Result<Totals> TenantServer::progress() const {
  control::ListJobsReply listed;
  control::StatisticsReply statistics;
  PHUB_RETURN_IF_ERROR(
      call(address_, &control::Admin::Stub::ListJobs, control::ListJobsRequest(), listed));
  PHUB_RETURN_IF_ERROR(
      call(address_, &control::Admin::Stub::Statistics, control::StatisticsRequest(), statistics));
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
      std::span(cpus).subspan(cpus.size() > cores_ ? cores_ : 0);
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
      call(address_, &control::Admin::Stub::Statistics, control::StatisticsRequest(), reply));
  std::uint64_t count = 0;
  for (const control::Drop& drop : reply.server().drops()) count += drop.count();
  return count;
}

}  // namespace phub::bench

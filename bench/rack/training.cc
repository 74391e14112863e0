#include "bench/rack/training.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "bench/rack/faults.h"
#include "bench/rack/scenario.h"
#include "common/config/config.h"
#include "common/text/url.h"

namespace phub::bench {
namespace {

constexpr std::chrono::seconds kBeginTimeout{180};  // workers load data and measure kernels first

Deadline now() { return std::chrono::steady_clock::now(); }

// What a worker is told is in a file elsewhere.
void make_absolute(std::string* path) {
  if (path->empty() || is_url(*path)) return;
  *path = std::filesystem::absolute(*path).lexically_normal().string();
}

std::string text_of(const WorkerConfig& config) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  return text;
}

// Where a worker says why it ended.
std::string last_line(const std::string& path) {
  std::ifstream log(path);
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

std::uint64_t steps_of(const std::vector<TrainedEpoch>& epochs) {
  std::uint64_t sum = 0;
  for (const TrainedEpoch& epoch : epochs) sum += epoch.steps;
  return sum;
}

double share_done(const TrainConfig& config, std::uint64_t steps, std::uint64_t epoch_steps) {
  std::uint64_t all = config.epochs() * epoch_steps;
  if (config.max_steps() > 0 && (all == 0 || config.max_steps() < all)) all = config.max_steps();
  return all == 0 ? -1.0 : std::min(1.0, static_cast<double>(steps) / static_cast<double>(all));
}

Result<WorkerConfig> trained_config(const RackScenario& scenario) {
  const RackTraining& training = scenario.training();
  WorkerConfig config;
  if (training.has_config()) {
    PHUB_ASSIGN_OR_RETURN(config, load_worker_config(training.config()));
  }
  config.MergeFrom(training.worker());
  config.set_transport(work_of(scenario).transport);
  config.clear_servers();
  config.set_worker_index(-1);
  config.mutable_train()->set_metrics("/dev/stdout");
  config.set_tcp_congestion_control(scenario.servers().tcp_congestion_control());
  config.set_tcp_buffer_kib(scenario.servers().tcp_buffer_kib());
  std::uint32_t workers = 0;
  for (const Rack& rack : scenario.racks()) workers += rack.workers();
  config.set_workers(workers);
  config.clear_racks();
  config.clear_rack_shape();
  config.clear_rack_hybrid_bytes();
  for (int i = 0; i < scenario.racks_size() && is_joined(scenario); ++i) {
    JobRackConfig& rack = *config.add_racks();
    rack.set_name(rack_name(static_cast<std::size_t>(i)));
    rack.set_workers(scenario.racks(i).workers());
    config.set_rack_shape(scenario.shape());
    if (scenario.has_hybrid_bytes()) config.set_rack_hybrid_bytes(scenario.hybrid_bytes());
  }
  config.add_servers("10.0.0.1:1");  // for the check: each host has its own rack's in the end
  PHUB_RETURN_IF_ERROR(validate(config).with_context("training"));
  config.clear_servers();
  if (config.data().has_path()) make_absolute(config.mutable_data()->mutable_path());
  if (config.model().has_file()) make_absolute(config.mutable_model()->mutable_file());
  return config;
}

Result<std::unique_ptr<TrainingRun>> TrainingRun::start(const Fabric& fabric,
                                                        const RackScenario& scenario,
                                                        const RackCluster& cluster,
                                                        const RackSite& site, Places& places) {
  PHUB_ASSIGN_OR_RETURN(WorkerConfig config, trained_config(scenario));
  std::unique_ptr<TrainingRun> run(new TrainingRun(places.interrupt_fd()));
  for (const RackHost& host : fabric.hosts) {
    config.clear_servers();
    for (const std::string& server : cluster.addresses_for(host)) config.add_servers(server);
    for (std::uint32_t i = 0; i < host.workers; ++i) {
      config.set_worker_index(static_cast<std::int32_t>(run->workers_.size()));
      const HostProgram program{.program = "phub-worker",
                                .words = {"train", "--kernels", scenario.training().kernels()},
                                .config = text_of(config),
                                .late_s = late_seconds(scenario, host)};
      PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> command, site.command(host, program));
      PHUB_RETURN_IF_ERROR(run->add_worker(host.name, command, places));
    }
  }
  return run;
}

Status TrainingRun::add_worker(const std::string& host, const std::vector<std::string>& command,
                               Places& places) {
  Worker worker{.host = host, .log_path = places.fresh_path(host + ".log"), .process = nullptr};
  PHUB_ASSIGN_OR_RETURN(worker.process,
                        ChildProcess::start({.name = fmt::format("phub-worker {}", host),
                                             .command = command,
                                             .log_path = worker.log_path,
                                             .holds_input = true}));
  workers_.push_back(std::move(worker));
  return {};
}

Status TrainingRun::begin() {
  const Deadline deadline = now() + kBeginTimeout;
  while (ends_.empty() && !std::all_of(workers_.begin(), workers_.end(),
                                       [](const Worker& worker) { return worker.has_begun; })) {
    PHUB_RETURN_IF_ERROR(listen(deadline).with_context("the training's begin"));
  }
  return {};
}

Status TrainingRun::finish(Deadline deadline) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    PHUB_ASSIGN_OR_RETURN(const WorkerEnd end, next_end(deadline));
    if (end.kind == EndKind::kDone) continue;
    return {Code::kAborted,
            fmt::format("phub-worker {}: {}", workers_[end.worker].host, end.error)};
  }
  if (!epochs_.empty()) return {};
  return {Code::kInternal, "the training ended without an epoch"};
}

Result<WorkerEnd> TrainingRun::next_end(Deadline deadline) {
  while (ends_.empty()) PHUB_RETURN_IF_ERROR(listen(deadline));
  WorkerEnd end = std::move(ends_.front());
  ends_.pop_front();
  return end;
}

Status TrainingRun::listen(Deadline deadline) {
  std::vector<pollfd> polled = {{.fd = interrupt_fd_, .events = POLLIN, .revents = 0}};
  for (const Worker& worker : workers_) {
    const int fd = worker.has_ended ? -1 : worker.process->output_fd();
    polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  const int ready = ::poll(polled.data(), polled.size(), poll_timeout(deadline));
  if (ready < 0 && errno != EINTR) return errno_status("poll");
  if (ready < 0 || polled.front().revents != 0) return {Code::kAborted, "interrupted"};
  if (ready == 0) {
    const auto late = std::find_if(workers_.begin(), workers_.end(),
                                   [](const Worker& worker) { return !worker.has_ended; });
    return {Code::kDeadlineExceeded, fmt::format("phub-worker {} has not come to it in time{}",
                                                 late->host, late->process->log_tail())};
  }
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (polled[i + 1].revents != 0) hear(i);
  }
  return {};
}

void TrainingRun::hear(std::uint32_t index) {
  Worker& worker = workers_[index];
  for (;;) {
    const Result<std::string> line = worker.process->read_output_line(now());
    if (line) {
      take(*line, index);
      continue;
    }
    if (line.error().code() == Code::kDeadlineExceeded) return;  // nothing more for now
    worker.has_ended = true;
    const std::string how = worker.process->how_it_ended();
    WorkerEnd end{.worker = index, .kind = EndKind::kError, .when = now()};
    if (how.ends_with("exit code 0")) end.kind = EndKind::kDone;
    if (how.find("signal") != std::string::npos) end.kind = EndKind::kKilled;
    if (end.kind != EndKind::kDone) end.error = how;
    if (const std::string said = last_line(worker.log_path);
        end.kind == EndKind::kError && !said.empty()) {
      end.error = said;
    }
    ends_.push_back(std::move(end));
    return;
  }
}

void TrainingRun::take(const std::string& line, std::uint32_t index) {
  const auto event = nlohmann::json::parse(line, nullptr, false);
  if (!event.is_object()) return;  // for people
  const std::string kind = event.value("event", "");
  if (kind == "start") workers_[index].has_begun = true;
  if (kind == "step" && index == 0 && on_step_) on_step_(event.value("step", std::uint64_t{0}) + 1);
  if (kind != "epoch" || index != 0) return;
  epochs_.push_back({.steps = event.value("steps", std::uint64_t{0}),
                     .loss = event.value("loss", 0.0),
                     .train_accuracy = event.value("train_accuracy", 0.0),
                     .test_accuracy = event.value("test_accuracy", -1.0),
                     .seconds = event.value("seconds", 0.0),
                     .exchange_seconds = event.value("exchange_seconds", 0.0),
                     .images_per_second = event.value("images_per_second", 0.0)});
}

}  // namespace phub::bench

// A training of a scenario: `phub-worker train` on every worker's host, and what they say of it.
//
// Belongs to the bench's main thread; the processes end with the object. Each writes its metrics
// (JSON lines) to its standard output.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/processes/child_process.h"
#include "bench/processes/work.h"
#include "bench/rack/cluster.h"
#include "bench/rack/workers.h"
#include "proto/rack.pb.h"

namespace phub::bench {

// As the first worker's metrics have it.
struct TrainedEpoch {
  std::uint64_t steps = 0;
  double loss = 0;  // means over its own images
  double train_accuracy = 0;
  double test_accuracy = -1;  // negative: not evaluated
  double seconds = 0;
  double exchange_seconds = 0;   // of which it waited for the exchange
  double images_per_second = 0;  // of all workers together
};

std::uint64_t steps_of(const std::vector<TrainedEpoch>& epochs);

// What the scenario trains: its file, and what goes before it. Errors: kInvalidArgument and
// kNotFound, with the place, the field and the cure.
Result<WorkerConfig> trained_config(const RackScenario& scenario);

class TrainingRun final : public RackWorkers {
 public:
  static Result<std::unique_ptr<TrainingRun>> start(const Fabric& fabric,
                                                    const RackScenario& scenario,
                                                    const RackCluster& cluster,
                                                    const RackSite& site, Places& places);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Returns when all workers train, or one has ended. Errors: kAborted: interrupted;
  // kDeadlineExceeded.
  Status begin();
  // From now on `on_step` is called with the steps that the first worker has done, as it says them.
  void watch(std::function<void(std::uint64_t)> on_step) { on_step_ = std::move(on_step); }
  // Returns when all workers have ended. Errors: also what the first that failed said.
  Status finish(Deadline deadline);

  Result<WorkerEnd> next_end(Deadline deadline) override;
  pid_t pid(std::uint32_t worker) const override { return workers_[worker].process->pid(); }

  const std::vector<TrainedEpoch>& epochs() const { return epochs_; }

 private:
  struct Worker {
    std::string host;
    std::string log_path;
    std::unique_ptr<ChildProcess> process;
    bool has_begun = false;
    bool has_ended = false;
  };

  explicit TrainingRun(int interrupt_fd) : interrupt_fd_(interrupt_fd) {}
  Status add_worker(const std::string& host, const std::vector<std::string>& command,
                    Places& places);
  // Waits until a worker says something, and takes it in.
  Status listen(Deadline deadline);
  void hear(std::uint32_t index);
  void take(const std::string& line, std::uint32_t index);

  int interrupt_fd_;
  std::vector<Worker> workers_;
  std::deque<WorkerEnd> ends_;        // that nobody has asked for yet
  std::vector<TrainedEpoch> epochs_;  // of the first
  std::function<void(std::uint64_t)> on_step_;
};

// The share of a training that is done. Below 0: it is unknown, for an epoch's steps are not said
// yet (0) and the training's steps have no bound.
double share_done(const TrainConfig& config, std::uint64_t steps, std::uint64_t epoch_steps);

// For people, and for the JSON line.
std::string training_table(const std::vector<TrainedEpoch>& epochs);
nlohmann::ordered_json training_json(const std::vector<TrainedEpoch>& epochs);

}  // namespace phub::bench

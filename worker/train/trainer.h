// The training loop: push each layer's gradients as soon as its backward is done, wait for a key
// only when the next forward needs it.
//
// Owned and called by one thread, the backend's. Executor, exchange, order and data outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/data/feed/deliveries.h"
#include "worker/data/feed/order.h"
#include "worker/nn/executor.h"
#include "worker/train/batch_loading.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/key_arrays.h"
#include "worker/train/report/observer.h"
#include "worker/train/report/step_meter.h"
#include "worker/train/schedule/loss_scaler.h"
#include "worker/train/schedule/schedule.h"
#include "worker/train/stages/stages.h"

namespace phub::train {

struct TrainerOptions {
  std::uint64_t epochs = 1;
  std::uint64_t max_steps = 0;   // of the whole training, resumed steps included; 0: no limit
  std::uint64_t first_step = 0;  // where a resumed run starts
  Schedule schedule;
  float momentum = 0.0F;
  LossScalerOptions loss_scale = {};
  std::uint32_t accumulate = 1;  // batches of a step: their gradients are averaged, then pushed
  // Images of this worker over an even share of all workers': its gradient weighs so much, so that
  // the mean of the workers' is that over images.
  double share = 1.0;
  std::vector<std::uint32_t> batches = {};  // by worker; none: each has this one's
  float samples = 0.0F;  // of a step: what the servers weigh a push by, in place of that; 0: alike
  float label_smoothing = 0.0F;
  std::uint64_t seed = 1;  // of dropout's masks
  FeedOptions feed = {};
  bool evaluate = true;                             // after each epoch, on the worker that leads
  std::uint64_t boundary_steps = 0;                 // 0: there are no boundaries
  std::function<void(std::string_view)> note = {};  // is told of each stage; may be empty
};

struct TrainerParts {
  nn::Executor& network;
  GradientExchange& exchange;
  const data::Images& images;
  const data::TrainingOrder& order;  // of these images, with as many accumulated batches
  const data::Images& test;
  data::Deliveries* deliveries = nullptr;  // is told each batch; null: nobody wants to know
  Stages* stages = nullptr;                // null: all epochs have images of one size
};

// One past the last step of a training. `max_steps`: TrainerOptions::max_steps.
std::uint64_t last_step_of(std::uint64_t epochs, std::uint64_t max_steps,
                           const data::TrainingOrder& order);

class Trainer {
 public:
  Trainer(const TrainerParts& parts, const TrainerOptions& options);

  // Trains from first_step to the end, until max_steps, or until `is_last` says so after a step's
  // pushes. Then all keys have been waited for. Errors: of a step, and those of is_last.
  Status run(Observer& observer, const std::function<Result<bool>()>& is_last);

  // One training step. Its pushes are still under way on return. Errors: kAborted if the loss is
  // not finite; the exchange's.
  Result<StepReport> step(std::uint64_t index);

  // Waits for every key that is under way.
  Status wait_all();

  // Share of the test images that are classified correctly. REQUIRES: wait_all.
  Result<double> evaluate();

  const data::TrainingOrder& order() const { return parts_.order; }
  std::uint64_t next_step() const { return next_step_; }
  std::uint64_t last_step() const;  // one past it
  // What the next step's will be. REQUIRES: wait_all.
  const LossScaler& loss_scaler() const { return scaler_; }

 private:
  class ExchangeHooks;

  // Of a step's gradient, before it is pushed.
  double own_weight() const { return options_.samples > 0.0F ? 1.0 : options_.share; }
  // Whether a step comes after another of its epoch. REQUIRES: index > 0.
  bool is_within_epoch(std::uint64_t index) const {
    return index < last_step() && parts_.order.epoch_of(index) == parts_.order.epoch_of(index - 1);
  }
  Status begin_stage(std::uint64_t epoch);
  const data::Images& test_images() const {
    return parts_.stages == nullptr ? parts_.test : parts_.stages->test();
  }
  void load_from(const data::Images& images, std::uint64_t end);
  Status batch(std::uint64_t index, std::uint32_t part, ExchangeHooks& hooks, StepReport& report);
  Status take_verdict();
  // Images in a step of all workers that the job still has.
  double images_of_all() const;

  void report_times(const StepReport& report);
  Status finish_epoch(EpochReport& report, Observer& observer);

  TrainerParts parts_;
  TrainerOptions options_;
  std::uint64_t next_step_;
  LossScaler scaler_;
  bool verdict_is_due_ = false;  // of the last step: whether it was left out
  std::uint64_t skipped_steps_ = 0;
  data::ReadCounts reads_;  // up to the last epoch's end
  KeyArrays sums_;   // of a step's gradients, all but the last batch's; empty without accumulation
  StepMeter meter_;  // of what servers are told
  std::optional<BatchLoading> batches_;  // of the stage that is under way
};

}  // namespace phub::train

// What exchanges with local steps have in common: the trainer's side is the worker's own.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "worker/train/exchange/local_steps.h"

namespace phub::train {

class OwnSteps : public GradientExchange {
 public:
  std::span<float> gradient(KeyId key) override { return own_->gradient(key); }
  std::span<const float> parameter(KeyId key) const override { return own().parameter(key); }

  Status set_hyper(const Hyper& hyper) override;

  // Everyone starts with worker 0's.
  Status initialise() override;

  void set_steps(std::uint64_t first, std::uint64_t end) override {
    step_ = first;
    end_ = end;
    schedule_.set_end(end);
  }

  // With the last step everything is exchanged. Where workers agree on none, it is this worker's
  // next step.
  Status end(const std::string& reason) override { return outer_->end(reason); }
  std::string ending() const override { return outer_->ending(); }
  Result<bool> is_last(std::uint64_t steps, std::uint32_t ahead) override;
  std::optional<std::uint64_t> last_step() const override { return outer_->last_step(); }

  Status end_step(float loss_scale) override {
    ++step_;
    return own_->end_step(loss_scale);
  }

  Status report_steps(const StepWaits& times) override { return outer_->report_steps(times); }

  // The residual of what is shared. The worker's own steps have none.
  KeptBack kept_back(KeyId key) override { return outer_->kept_back(key); }

  std::vector<std::uint32_t> workers_lost() const override { return outer_->workers_lost(); }

  ExchangeStatistics statistics() const override { return outer_->statistics(); }

 protected:
  OwnSteps(LocalStepsParts parts, const OuterScheduleOptions& schedule, std::size_t keys,
           const Hyper& outer_hyper)
      : GradientExchange(facts_of(*parts.outer)),
        own_(std::move(parts.own)),
        outer_(std::move(parts.outer)),
        schedule_(schedule),
        keys_(keys),
        local_steps_(schedule.local_steps),
        outer_hyper_(outer_hyper) {}

  const GradientExchange& own() const { return *own_; }
  const GradientExchange& outer() const { return *outer_; }

  std::unique_ptr<GradientExchange> own_;
  std::unique_ptr<GradientExchange> outer_;
  OuterSchedule schedule_;
  std::size_t keys_;
  std::uint32_t local_steps_;
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();  // of the training
  std::uint64_t step_ = 0;                                         // the one under way, or the next

 private:
  // The trainer's arrays are fp32, whatever travels; momentum is in two places, and in no file.
  static ExchangeFacts facts_of(const GradientExchange& outer) {
    ExchangeFacts facts = outer.facts();
    facts.wire_type = DataType::kFloat32;
    facts.state_at = StateAt::kServers;
    return facts;
  }

  Hyper outer_hyper_;
  std::optional<std::uint64_t> own_last_;  // step, where workers agree on none
};

}  // namespace phub::train

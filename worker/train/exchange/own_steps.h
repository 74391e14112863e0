// What exchanges with local steps have in common: the trainer's side is the worker's own.
#pragma once

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
    schedule_.set_end(end);
  }

  Status end_step(float loss_scale) override {
    ++step_;
    return own_->end_step(loss_scale);
  }

  ExchangeStatistics statistics() const override { return outer_->statistics(); }

 protected:
  OwnSteps(LocalStepsParts parts, const OuterScheduleOptions& schedule, std::size_t keys,
           const Hyper& outer_hyper)
      : GradientExchange(facts_of(*parts.outer)),
        own_(std::move(parts.own)),
        outer_(std::move(parts.outer)),
        schedule_(schedule),
        keys_(keys),
        outer_hyper_(outer_hyper) {}

  const GradientExchange& own() const { return *own_; }
  const GradientExchange& outer() const { return *outer_; }

  std::unique_ptr<GradientExchange> own_;
  std::unique_ptr<GradientExchange> outer_;
  OuterSchedule schedule_;
  std::size_t keys_;
  std::uint64_t step_ = 0;  // the one under way, or the next

 private:
  // The trainer's arrays are fp32, whatever travels; momentum is in two places, and in no file.
  static ExchangeFacts facts_of(const GradientExchange& outer) {
    ExchangeFacts facts = outer.facts();
    facts.wire_type = DataType::kFloat32;
    facts.state_at = StateAt::kServers;
    return facts;
  }

  Hyper outer_hyper_;
};

}  // namespace phub::train

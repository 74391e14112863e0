#include <algorithm>
#include <optional>
#include <utility>

#include "worker/train/exchange/key_arrays.h"
#include "worker/train/exchange/own_steps.h"

namespace phub::train {
namespace {

// Weights are pushed before the first of the steps that they overlap with, and taken before the
// forward pass after the last one.
OuterScheduleOptions schedule_of(OuterScheduleOptions schedule) {
  schedule.overlap_steps -= schedule.overlap_steps > 0 ? 1 : 0;
  return schedule;
}

// With step t, W_i and W are the worker's parameters and the centre before it: W_i is pushed, and
// the step is W_i -= change of the worker's rule + elasticity * (W_i - W). So when a push leaves
// makes no difference to the step. W is the centre that was replied to the push before.
class ElasticExchange : public OwnSteps {
 public:
  ElasticExchange(LocalStepsParts parts, const std::vector<KeySpec>& keys,
                  const ElasticOptions& options)
      : OwnSteps(std::move(parts), schedule_of(options.schedule), keys.size(), options.hyper),
        fragments_(options.fragments),
        elasticity_(options.hyper.learning_rate),
        pushes_before_(options.schedule.overlap_steps > 0),
        pulls_(keys),
        pushed_(keys.size()) {}

  Status push(KeyId key) override {
    if (meets(key) && pushed_[key] != step_) PHUB_RETURN_IF_ERROR(meet(key));
    PHUB_RETURN_IF_ERROR(own_->push(key));
    if (pushed_[key] == step_) pull(key);
    return schedule_.is_last(step_) ? push_last(key) : Status();
  }

  Status wait(KeyId key) override {
    if (pushed_[key] && schedule_.is_due(*pushed_[key], step_)) PHUB_RETURN_IF_ERROR(take(key));
    const bool is_time = pushes_before_ && meets(key) && pushed_[key] != step_;
    return is_time ? meet(key) : Status();
  }

 private:
  bool meets(KeyId key) const {
    return schedule_.is_exchanged(fragments_[key], step_) && !schedule_.is_last(step_);
  }

  // Pushes the parameters of before this step, and finds how far the centre pulls them.
  Status meet(KeyId key) {
    PHUB_RETURN_IF_ERROR(take(key));
    const auto mine = own().parameter(key);
    const auto centre = outer().parameter(key);
    const auto sent = outer_->gradient(key);
    const auto pulls = pulls_.of(key);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] = mine[i];
      pulls[i] = elasticity_ * (mine[i] - centre[i]);
    }
    pushed_[key] = step_;
    return outer_->push(key);
  }

  void pull(KeyId key) {
    const auto mine = own_->own_parameter(key);
    const auto pulls = pulls_.of(key);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] -= pulls[i];
  }

  // What is pushed with the last step is of after it, so that no gradient is lost.
  Status push_last(KeyId key) {
    PHUB_RETURN_IF_ERROR(take(key));
    std::ranges::copy(own().parameter(key), outer_->gradient(key).begin());
    pushed_[key] = step_;
    return outer_->push(key);
  }

  Status take(KeyId key) {
    if (!pushed_[key]) return {};
    PHUB_RETURN_IF_ERROR(outer_->wait(key));
    const bool ends = schedule_.is_last(*pushed_[key]);
    pushed_[key].reset();
    if (ends) std::ranges::copy(outer().parameter(key), own_->own_parameter(key).begin());
    return {};
  }

  std::vector<std::uint32_t> fragments_;  // by key
  float elasticity_;
  bool pushes_before_;  // the forward pass, and not after the backward pass
  KeyArrays pulls_;     // of the push under way
  std::vector<std::optional<std::uint64_t>> pushed_;  // by key: the step of a push under way
};

}  // namespace

std::unique_ptr<GradientExchange> make_elastic_exchange(LocalStepsParts parts,
                                                        const std::vector<KeySpec>& keys,
                                                        const ElasticOptions& options) {
  return std::make_unique<ElasticExchange>(std::move(parts), keys, options);
}

}  // namespace phub::train

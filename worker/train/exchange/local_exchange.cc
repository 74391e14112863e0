#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "kernels/lars.h"
#include "kernels/reduce.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/key_arrays.h"

namespace phub::train {
namespace {

class LocalExchange : public GradientExchange {
 public:
  LocalExchange(const std::vector<KeySpec>& keys, RuleKind rule, const LarsOptions& lars,
                const LossScale& loss_scale)
      : GradientExchange({.state_at = state_arrays(rule) > 0 ? StateAt::kHere : StateAt::kNowhere}),
        rule_(rule),
        lars_(lars),
        loss_scale_(loss_scale),
        keys_(keys),
        gradients_(keys),
        parameters_(keys),
        state_(state_arrays(rule) > 0 ? keys : std::vector<KeySpec>()) {}

  std::span<float> gradient(KeyId key) override { return gradients_.of(key); }
  std::span<const float> parameter(KeyId key) const override { return parameters_.of(key); }

  Status initialise() override {
    for (KeyId key = 0; key < keys_.size(); ++key) {
      const auto initial = gradients_.of(key);
      std::copy(initial.begin(), initial.end(), parameters_.of(key).begin());
    }
    return {};
  }

  std::span<float> own_parameter(KeyId key) override { return parameters_.of(key); }
  std::span<float> state(KeyId key) override { return state_.of(key); }

  Status set_hyper(const Hyper& hyper) override {
    hyper_ = hyper;
    return {};
  }

  Status push(KeyId key) override {
    const bool checks = loss_scale_.kind != LossScaling::kNone;
    const bool finite = !checks || kernels::all_finite(source_of(key), keys_[key].elements);
    skips_ = skips_ || !finite;
    if (loss_scale_.kind == LossScaling::kVoted) {
      pushed_.push_back(key);
    } else if (finite) {
      update(key, loss_scale_.factor);
    }
    return {};
  }

  Status end_step(float loss_scale) override {
    for (const KeyId key : pushed_) {
      if (!skips_) update(key, loss_scale);
    }
    pushed_.clear();
    skipped_ = skips_;
    skips_ = false;
    return {};
  }
  bool step_was_skipped() const override { return skipped_; }

  Status wait(KeyId) override { return {}; }

 private:
  kernels::Source source_of(KeyId key) const {
    return {std::as_bytes(gradients_.of(key)).data(), DataType::kFloat32};
  }

  void update(KeyId key, float loss_scale) {
    const kernels::Source source = source_of(key);
    const std::uint64_t elements = keys_[key].elements;
    Hyper hyper = hyper_;
    hyper.gradient_scale /= loss_scale;
    float trust = 1.0F;
    if (rule_ == RuleKind::kLars) {
      trust = kernels::trust_of(
          lars_,
          {.parameters = kernels::sum_of_squares(parameters_.of(key).data(), elements),
           .gradients = kernels::sum_of_squares(gradients_.of(key).data(), elements)},
          hyper.gradient_scale, keys_[key].weight_decay);
      skips_ = skips_ || !std::isfinite(trust);
      if (!std::isfinite(trust)) return;
      if (keys_[key].exclude_from_lars) trust = 1.0F;
    }
    kernels::update({.sources = {&source, 1},
                     .elements = elements,
                     .rule = rule_,
                     .hyper = hyper,
                     .weight_decay = keys_[key].weight_decay,
                     .trust = trust,
                     .parameters = parameters_.of(key).data(),
                     .state = state_arrays(rule_) > 0 ? state_.of(key).data() : nullptr});
  }

  RuleKind rule_;
  LarsOptions lars_;
  LossScale loss_scale_;
  Hyper hyper_;
  std::vector<KeyId> pushed_;  // voted: in this step
  bool skips_ = false;         // this step: something is not finite
  bool skipped_ = false;       // the last one
  std::vector<KeySpec> keys_;
  KeyArrays gradients_, parameters_, state_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_local_exchange(const std::vector<KeySpec>& keys,
                                                      RuleKind rule, const LarsOptions& lars,
                                                      const LossScale& loss_scale) {
  return std::make_unique<LocalExchange>(keys, rule, lars, loss_scale);
}

}  // namespace phub::train

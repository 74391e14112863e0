#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "kernels/clip.h"
#include "kernels/lamb.h"
#include "kernels/lars.h"
#include "kernels/reduce.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/key_arrays.h"

namespace phub::train {
namespace {

// The same keys with room for so many arrays each, one behind the other.
std::vector<KeySpec> with_state(std::vector<KeySpec> keys, unsigned arrays) {
  for (KeySpec& key : keys) key.elements *= arrays;
  return arrays > 0 ? keys : std::vector<KeySpec>();
}

class LocalExchange : public GradientExchange {
 public:
  LocalExchange(const std::vector<KeySpec>& keys, RuleKind rule, const LarsOptions& lars,
                const LossScale& loss_scale, const AdaptiveOptions& adaptive, float clip_norm)
      : GradientExchange({.state_at = state_arrays(rule) > 0 ? StateAt::kHere : StateAt::kNowhere,
                          .rule = rule}),
        rule_(rule),
        lars_(lars),
        loss_scale_(loss_scale),
        adaptive_(adaptive),
        clip_norm_(clip_norm),
        keys_(keys),
        gradients_(keys),
        parameters_(keys),
        state_(with_state(keys, state_arrays(rule))) {
    if (adaptive_.epsilon == 0.0) adaptive_.epsilon = default_epsilon(rule);
  }

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
  std::span<float> state(KeyId key, unsigned array) override {
    return state_.of(key).subspan(array * keys_[key].elements, keys_[key].elements);
  }
  std::uint64_t updates() const override { return updates_; }
  void resume_updates(std::uint64_t updates) override { updates_ = updates; }

  Status set_hyper(const Hyper& hyper) override {
    hyper_ = hyper;
    return {};
  }

  Status push(KeyId key) override {
    const bool checks = loss_scale_.kind != LossScaling::kNone && clip_norm_ == 0.0F;
    const bool finite = !checks || kernels::all_finite(source_of(key), keys_[key].elements);
    skips_ = skips_ || !finite;
    if (waits()) {
      pushed_.push_back(key);
    } else if (finite) {
      update(key, loss_scale_.factor);
    }
    return {};
  }

  Status end_step(float loss_scale) override {
    if (clip_norm_ > 0.0F) clip(loss_scale);
    for (const KeyId key : pushed_) {
      if (!skips_) update(key, loss_scale);
    }
    const bool is_left_out = waits() && skips_;
    if (!is_left_out) ++updates_;
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

  // Until the step's end: for what is found out of all of its gradients.
  bool waits() const { return loss_scale_.kind == LossScaling::kVoted || clip_norm_ > 0.0F; }

  void clip(float loss_scale) {
    double squares = 0.0;
    for (KeyId key = 0; key < keys_.size(); ++key) {
      squares += kernels::sum_of_squares(gradients_.of(key).data(), keys_[key].elements);
    }
    clip_ = kernels::clip_coefficient(clip_norm_, squares, hyper_.gradient_scale / loss_scale);
    skips_ = skips_ || !std::isfinite(clip_);
  }

  void update(KeyId key, float loss_scale) {
    const kernels::Source source = source_of(key);
    const std::uint64_t elements = keys_[key].elements;
    Hyper hyper = hyper_;
    hyper.gradient_scale /= loss_scale;
    hyper.gradient_scale *= clip_;
    if (rule_ == RuleKind::kLamb) return update_by_lamb(key, hyper);
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
    const kernels::AdaptiveStep step =
        kernels::adaptive_step(rule_, adaptive_, hyper.learning_rate, updates_);
    kernels::update(arguments(key, {&source, 1}, hyper, step, trust));
  }

  // A gradient that is not finite leaves its key out, as of lars.
  void update_by_lamb(KeyId key, const Hyper& hyper) {
    const std::uint64_t elements = keys_[key].elements;
    const bool is_finite =
        std::isfinite(kernels::sum_of_squares(gradients_.of(key).data(), elements));
    skips_ = skips_ || !is_finite;
    if (!is_finite) return;
    const kernels::AdaptiveStep step =
        kernels::adaptive_step(rule_, adaptive_, hyper.learning_rate, updates_);
    const kernels::Source source = source_of(key);
    direction_.resize(elements);
    const double before = kernels::sum_of_squares(parameters_.of(key).data(), elements);
    kernels::lamb_direction(arguments(key, {&source, 1}, hyper, step, 1.0F), direction_.data());
    float trust = kernels::lamb_trust(before, kernels::sum_of_squares(direction_.data(), elements));
    skips_ = skips_ || !std::isfinite(trust);
    if (!std::isfinite(trust)) return;
    if (keys_[key].exclude_from_lars) trust = 1.0F;
    const kernels::Source direction{std::as_bytes(std::span(direction_)).data(),
                                    DataType::kFloat32};
    kernels::update(arguments(key, {&direction, 1}, hyper, step, trust));
  }

  // `sources` and `step` outlive them.
  kernels::Update arguments(KeyId key, std::span<const kernels::Source> sources, const Hyper& hyper,
                            const kernels::AdaptiveStep& step, float trust) {
    return {.sources = sources,
            .elements = keys_[key].elements,
            .rule = rule_,
            .hyper = hyper,
            .weight_decay = keys_[key].weight_decay,
            .trust = trust,
            .adaptive = &step,
            .parameters = parameters_.of(key).data(),
            .state = state_arrays(rule_) > 0 ? state_.of(key).data() : nullptr,
            .state_stride = keys_[key].elements};
  }

  RuleKind rule_;
  LarsOptions lars_;
  LossScale loss_scale_;
  AdaptiveOptions adaptive_;
  float clip_norm_;    // 0: none
  float clip_ = 1.0F;  // of this step
  Hyper hyper_;
  std::uint64_t updates_ = 0;  // as a server's chunk counts: its rounds without those voted out
  std::vector<KeyId> pushed_;  // in this step, where it waits
  bool skips_ = false;         // this step: something is not finite
  bool skipped_ = false;       // the last one
  std::vector<KeySpec> keys_;
  KeyArrays gradients_, parameters_, state_;
  std::vector<float> direction_;  // of lamb: a key's
};

}  // namespace

std::unique_ptr<GradientExchange> make_local_exchange(const std::vector<KeySpec>& keys,
                                                      RuleKind rule, const LarsOptions& lars,
                                                      const LossScale& loss_scale,
                                                      const AdaptiveOptions& adaptive,
                                                      float clip_norm) {
  return std::make_unique<LocalExchange>(keys, rule, lars, loss_scale, adaptive, clip_norm);
}

}  // namespace phub::train

#include <algorithm>
#include <optional>
#include <utility>

#include "worker/train/exchange/own_steps.h"

namespace phub::train {
namespace {

class DeltaExchange : public OwnSteps {
 public:
  DeltaExchange(LocalStepsParts parts, const DeltaOptions& options)
      : OwnSteps(std::move(parts), options.schedule, options.fragments.size(), options.hyper),
        fragments_(options.fragments),
        mix_(options.mix),
        pushed_(options.fragments.size()) {}

  Status push(KeyId key) override {
    PHUB_RETURN_IF_ERROR(own_->push(key));
    if (!schedule_.is_exchanged(fragments_[key], step_)) return {};
    PHUB_RETURN_IF_ERROR(take(key));  // the last exchange may come before it is due
    const auto mine = own().parameter(key);
    const auto shared = outer().parameter(key);
    const auto delta = outer_->gradient(key);
    for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = shared[i] - mine[i];
    PHUB_RETURN_IF_ERROR(outer_->push(key));
    pushed_[key] = step_;
    return {};
  }

  Status wait(KeyId key) override {
    if (!pushed_[key] || !schedule_.is_due(*pushed_[key], step_)) return {};
    return take(key);
  }

 private:
  Status take(KeyId key) {
    if (!pushed_[key]) return {};
    PHUB_RETURN_IF_ERROR(outer_->wait(key));
    // After the last step nobody keeps anything of its own.
    const float mix = schedule_.is_last(*pushed_[key]) ? 0.0F : mix_;
    pushed_[key].reset();
    const auto shared = outer().parameter(key);
    const auto mine = own_->own_parameter(key);
    if (mix == 0.0F) {
      std::ranges::copy(shared, mine.begin());
      return {};
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = mix * mine[i] + (1.0F - mix) * shared[i];
    }
    return {};
  }

  std::vector<std::uint32_t> fragments_;  // by key
  float mix_;
  std::vector<std::optional<std::uint64_t>> pushed_;  // by key: the step of a push under way
};

}  // namespace

std::unique_ptr<GradientExchange> make_delta_exchange(LocalStepsParts parts,
                                                      const DeltaOptions& options) {
  return std::make_unique<DeltaExchange>(std::move(parts), options);
}

}  // namespace phub::train

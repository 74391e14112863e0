#include <algorithm>

#include "common/base/check.h"
#include "kernels/reduce.h"
#include "worker/train/arena.h"
#include "worker/train/exchanger.h"

namespace phub::train {
namespace {

class LocalExchanger : public Exchanger {
 public:
  LocalExchanger(const std::vector<KeySpec>& keys, RuleKind rule)
      : rule_(rule),
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

  Status set_hyper(const Hyper& hyper) override {
    hyper_ = hyper;
    return {};
  }

  Status push(KeyId key) override {
    const auto gradient = gradients_.of(key);
    const kernels::Source source{std::as_bytes(gradient).data(), DataType::kFloat32};
    kernels::update({.sources = {&source, 1},
                     .elements = gradient.size(),
                     .rule = rule_,
                     .hyper = hyper_,
                     .weight_decay = keys_[key].weight_decay,
                     .parameters = parameters_.of(key).data(),
                     .state = state_arrays(rule_) > 0 ? state_.of(key).data() : nullptr});
    return {};
  }

  Status wait(KeyId) override { return {}; }

  std::uint32_t worker_index() const override { return 0; }
  std::uint32_t workers() const override { return 1; }
  std::string_view transport() const override { return "local"; }
  ExchangeStatistics statistics() const override { return {}; }

 private:
  RuleKind rule_;
  Hyper hyper_;
  std::vector<KeySpec> keys_;
  Arena gradients_, parameters_, state_;
};

}  // namespace

std::unique_ptr<Exchanger> make_local_exchanger(const std::vector<KeySpec>& keys, RuleKind rule) {
  return std::make_unique<LocalExchanger>(keys, rule);
}

}  // namespace phub::train

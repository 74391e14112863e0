// A local exchange behind another one's facts, for tests.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "worker/train/exchange/gradient_exchange.h"

namespace phub::testing {

class OverLocal : public train::GradientExchange {
 public:
  OverLocal(const std::vector<KeySpec>& keys, train::ExchangeFacts facts)
      : GradientExchange(std::move(facts)),
        local_(train::make_local_exchange(keys, RuleKind::kSgd)) {}

  std::span<float> gradient(KeyId key) override { return local_->gradient(key); }
  std::span<const float> parameter(KeyId key) const override { return local_->parameter(key); }
  Status initialise() override { return local_->initialise(); }
  Status set_hyper(const Hyper& hyper) override { return local_->set_hyper(hyper); }
  Status push(KeyId key) override { return local_->push(key); }
  Status wait(KeyId key) override { return local_->wait(key); }

 private:
  std::unique_ptr<train::GradientExchange> local_;
};

}  // namespace phub::testing

#include "worker/train/exchange/own_steps.h"

#include <algorithm>

namespace phub::train {

std::vector<KeySpec> outer_keys(std::vector<KeySpec> keys) {
  for (KeySpec& key : keys) {
    key.weight_decay = 0.0F;
    key.exclude_from_lars = false;
  }
  return keys;
}

Status OwnSteps::initialise() {
  if (facts().steps_before > 0) {
    return {Code::kInvalidArgument,
            "train.payload: the job was restored from a snapshot, which has nothing of its "
            "workers' own steps: go on from a checkpoint (train.resume with "
            "train.restart_momentum) in a new job, or use payload \"gradient\""};
  }
  for (KeyId key = 0; key < keys_; ++key) {
    std::ranges::copy(own_->gradient(key), outer_->gradient(key).begin());
  }
  PHUB_RETURN_IF_ERROR(outer_->initialise());
  Hyper hyper = outer_hyper_;
  if (hyper.gradient_scale == 0.0F) {
    hyper.gradient_scale = 1.0F / static_cast<float>(facts().workers);
  }
  PHUB_RETURN_IF_ERROR(outer_->set_hyper(hyper));
  for (KeyId key = 0; key < keys_; ++key) {
    std::ranges::copy(outer().parameter(key), own_->gradient(key).begin());
  }
  return own_->initialise();
}

}  // namespace phub::train

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

// The trainer's are of the worker's own steps, but for what its pushes weigh.
Status OwnSteps::set_hyper(const Hyper& hyper) {
  if (hyper.samples != outer_hyper_.samples) {
    outer_hyper_.samples = hyper.samples;
    PHUB_RETURN_IF_ERROR(outer_->set_hyper(outer_hyper_));
  }
  Hyper local = hyper;
  local.gradient_scale = 1.0F;  // a local step is of one worker
  return own_->set_hyper(local);
}

// Workers are local_steps apart at most, and an exchange may be needed as many steps later. One
// step more, so that nobody has begun the last one when it becomes known.
Result<bool> OwnSteps::is_last(std::uint64_t steps, std::uint32_t /*ahead*/) {
  PHUB_ASSIGN_OR_RETURN(const bool is_last, outer_->is_last(steps, 2 * local_steps_ + 1));
  if (const auto agreed = outer_->last_step()) {
    schedule_.set_end(std::min(end_, *agreed));
    return is_last;
  }
  if (!is_last) return false;
  if (!own_last_) {
    own_last_ = steps + 1;
    schedule_.set_end(std::min(end_, *own_last_));
  }
  return steps >= *own_last_;
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
  if (outer_hyper_.gradient_scale == 0.0F) {
    outer_hyper_.gradient_scale = 1.0F / static_cast<float>(facts().workers);
  }
  PHUB_RETURN_IF_ERROR(outer_->set_hyper(outer_hyper_));
  for (KeyId key = 0; key < keys_; ++key) {
    std::ranges::copy(outer().parameter(key), own_->gradient(key).begin());
  }
  return own_->initialise();
}

}  // namespace phub::train

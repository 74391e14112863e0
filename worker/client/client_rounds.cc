// Client: pushes, waits, votes and snapshots, once it is connected.
#include <cmath>

#include "worker/client/client.h"
#include "worker/client/client_options.h"
#include "worker/client/timeout.h"

namespace phub::client {
namespace {

constexpr std::chrono::milliseconds kLeaveGrace{1000};

}  // namespace

std::span<std::byte> JobClient::gradient_bytes(KeyId key) {
  PHUB_CHECK(memory_ && key < keys_.size(), "gradient of a key that is not registered");
  const std::size_t width = size_of(options_.wire_type);
  return {memory_->data() + gradients_offset_ + plan_->key_offset[key] * width,
          keys_[key].elements * width};
}

std::span<const std::byte> JobClient::parameter_bytes(KeyId key) const {
  PHUB_CHECK(parameters_ != nullptr && key < keys_.size(), "parameter of an unregistered key");
  const std::size_t width = size_of(options_.wire_type);
  return {parameters_ + plan_->key_offset[key] * width, keys_[key].elements * width};
}

ArrayLayout JobClient::layout() const {
  PHUB_CHECK(plan_ != nullptr, "the layout of keys that are not registered");
  const std::size_t width = size_of(options_.wire_type);
  ArrayLayout layout{.offsets = {}, .bytes = plan_->arena_elements * width};
  for (const std::uint64_t offset : plan_->key_offset) layout.offsets.push_back(offset * width);
  return layout;
}

Result<std::string> JobClient::push_from(ExportedMemoryPointer gpu) {
  PHUB_RETURN_IF_ERROR(check_key(0));
  if (!progress_->idle()) {
    return Status(Code::kFailedPrecondition, "push_from: wait for every push first");
  }
  for (std::size_t s = 0; s < choices_.size(); ++s) {
    if (choices_[s].transport == "verbs") continue;
    return Status(Code::kFailedPrecondition,
                  "server " + membership_.servers[s]->address() + " is reached over " +
                      choices_[s].transport + " (" + choices_[s].reason +
                      "), and only transport verbs reads a GPU's memory");
  }
  if (const std::size_t needed = layout().bytes; gpu->bytes.size() < needed) {
    return Status(Code::kInvalidArgument, "push_from: the gradients are " + std::to_string(needed) +
                                              " bytes, the memory has " +
                                              std::to_string(gpu->bytes.size()));
  }
  PHUB_ASSIGN_OR_RETURN(std::string how, verbs_ports_->add_source(gpu));
  exchange_->use_verbs_source(
      gpu->bytes, [this](const auto& device) { return verbs_ports_->source_key_on(device); });
  exchange_->push_from(gpu->bytes.data());
  gpu_gradients_ = std::move(gpu);
  return how;
}

Status JobClient::check_key(KeyId key) const {
  if (!progress_) return {Code::kFailedPrecondition, "register_keys has not succeeded"};
  if (key >= keys_.size()) {
    return {Code::kInvalidArgument, "key " + std::to_string(key) + " does not exist: there are " +
                                        std::to_string(keys_.size())};
  }
  return {};
}

Status JobClient::push(KeyId key) {
  if (initialising_) {
    return {Code::kFailedPrecondition,
            "push: initial values are not all there yet; call initialise again"};
  }
  return start_push(key);
}

Status JobClient::start_push(KeyId key) {
  PHUB_RETURN_IF_ERROR(check_key(key));
  if (!progress_->ready(key)) {
    return {Code::kFailedPrecondition,
            "key " + keys_[key].name + " was pushed already: wait for it first"};
  }
  if (heartbeat_->failed()) return heartbeat_->failure();
  if (key == 0) ++rounds_;
  pushes_.push(key);
  progress_->push(key);
  return {};
}

Result<std::vector<std::string>> JobClient::snapshot() {
  PHUB_RETURN_IF_ERROR(check_key(0));
  for (KeyId key = 0; key < keys_.size(); ++key) {
    if (progress_->ready(key)) continue;
    return Status(Code::kFailedPrecondition,
                  "snapshot: key " + keys_[key].name + " is under way: wait for it first");
  }
  return snapshot_all(membership_, rounds_before() + rounds_, options_.timeout);
}

bool JobClient::hopeless() const {
  if (heartbeat_->failed()) return true;
  // Replies to rounds that the leaver took part in are under way; later rounds never complete.
  return heartbeat_->someone_left() && std::chrono::steady_clock::now() - wait_start_ > kLeaveGrace;
}

Status JobClient::wait_for(std::optional<KeyId> key) {
  PHUB_RETURN_IF_ERROR(check_key(key.value_or(0)));
  wait_start_ = std::chrono::steady_clock::now();
  const Progress::End end = progress_->wait(key, options_.timeout);
  waited_ += std::chrono::steady_clock::now() - wait_start_;
  switch (end) {
    case Progress::End::kReady:
      return {};
    case Progress::End::kFailed:
      return explain_failure();
    case Progress::End::kTimeout:
      return explain_timeout({.options = options_,
                              .keys = keys_,
                              .plan = *plan_,
                              .progress = *progress_,
                              .key = key,
                              .owes_vote = pushes_.any()});
  }
  return {};
}

Status JobClient::explain_failure() {
  const auto loss = progress_->loss();
  if (loss && loss->loss == transport::Loss::kBadTag) {
    return {Code::kDataLoss, "what came from server " +
                                 membership_.servers[loss->server]->address() + ", core " +
                                 std::to_string(loss->core) +
                                 ", was changed on the way: a record of the encrypted connection "
                                 "does not verify; nothing of it was used"};
  }
  if (heartbeat_->failed()) return heartbeat_->failure();
  if (heartbeat_->someone_left()) return heartbeat_->leavers();
  return loss ? heartbeat_->diagnose(loss->server, loss->core)
              : Status(Code::kUnavailable, "the exchange stopped");
}

Status JobClient::initialise() {
  if (!has_parameters(options_.rule)) {
    return {Code::kFailedPrecondition,
            "rule " + std::string(name_of(options_.rule)) + " has no parameters to initialise"};
  }
  // What a GPU is to push is gradients: initial values come from the host all the same.
  initialising_ = true;
  if (gpu_gradients_) exchange_->push_from(memory_->data() + gradients_offset_);
  for (KeyId key = 0; key < keys_.size(); ++key) PHUB_RETURN_IF_ERROR(start_push(key));
  pushes_.begin(keys_.size());  // nobody votes on initial values
  PHUB_RETURN_IF_ERROR(wait_all());
  if (gpu_gradients_) exchange_->push_from(gpu_gradients_->bytes.data());
  initialising_ = false;
  return {};
}

Status JobClient::set_hyper(const Hyper& hyper) {
  PHUB_RETURN_IF_ERROR(check_key(0));
  if (!progress_->idle()) {
    return {Code::kFailedPrecondition, "set_hyper: wait for every push first"};
  }
  const bool is_finite = std::isfinite(hyper.learning_rate) && std::isfinite(hyper.gradient_scale);
  if (!is_finite || hyper.learning_rate < 0.0F || hyper.gradient_scale < 0.0F ||
      !(hyper.momentum >= 0.0F && hyper.momentum < 1.0F)) {
    return {Code::kInvalidArgument,
            "set_hyper: learning_rate and gradient_scale must be finite and not negative, momentum "
            "in [0, 1)"};
  }
  Hyper complete = hyper;
  if (complete.gradient_scale == 0.0F) {
    complete.gradient_scale = 1.0F / static_cast<float>(options_.workers);
  }
  progress_->set_hyper(complete);
  return {};
}

Status JobClient::vote(const Vote& vote) {
  PHUB_RETURN_IF_ERROR(check_key(0));
  PHUB_RETURN_IF_ERROR(check_vote(options_, vote));
  if (pushes_.missing() > 0) {
    return {Code::kFailedPrecondition,
            "vote: push every key first; " + std::to_string(pushes_.missing()) + " are not pushed"};
  }
  if (heartbeat_->failed()) return heartbeat_->failure();
  progress_->vote(vote);
  pushes_.begin(keys_.size());
  return {};
}

ClientStatistics JobClient::statistics() const {
  if (!exchange_) return {};
  return {.bytes_pushed = exchange_->bytes_pushed(),
          .bytes_received = exchange_->bytes_received(),
          .rounds = rounds_,
          .wait_seconds = std::chrono::duration<double>(waited_).count()};
}

}  // namespace phub::client

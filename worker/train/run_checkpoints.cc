#include "worker/train/run_checkpoints.h"

#include <string>

#include "worker/train/checkpoints/checkpoint.h"

namespace phub::train {
namespace {

// "model.safetensors" -> "model.without-snapshot.safetensors".
std::filesystem::path path_without_snapshot(const std::filesystem::path& checkpoint) {
  std::filesystem::path path = checkpoint;
  return path.replace_filename(checkpoint.stem().string() + ".without-snapshot" +
                               checkpoint.extension().string());
}

RunPosition position_of(const SessionOptions& options, const Trainer& trainer,
                        std::uint64_t next_step) {
  RunPosition position{.model = options.model,
                       .seed = options.seed,
                       .next_step = next_step,
                       .samples = trainer.order().images(),
                       .used = trainer.order().used(next_step)};
  if (options.update.loss_scale.kind == LossScaling::kVoted) {
    position.loss_scale = trainer.loss_scaler().scale();
    position.good_steps = trainer.loss_scaler().good_steps();
  }
  return position;
}

// What is not saved is lost, whatever kept it from being saved. An end of the job is told as it is.
Status as_loss(const Status& status) {
  const Code code = status.code();
  if (status.ok() || code == Code::kAborted || code == Code::kUnavailable) return status;
  return {Code::kDataLoss, status.message()};
}

}  // namespace

RunCheckpoints::RunCheckpoints(const SessionOptions& options, const RunParts& parts,
                               std::uint64_t first_step)
    : options_(options),
      parts_(parts),
      last_(options.checkpoint.path, options.checkpoint.last, first_step),
      residuals_(options.checkpoint.path, options.checkpoint.last, parts.network, parts.exchange,
                 first_step),
      best_(accuracy_of_best(options.checkpoint.path, first_step)) {}

bool RunCheckpoints::are_written() const {
  return leads(parts_.exchange) && !options_.checkpoint.path.empty();
}

Status RunCheckpoints::write(std::uint64_t next_step) {
  const std::pair now(next_step, are_written());
  if (options_.checkpoint.path.empty() || written_ == now) return {};
  if (!written_ || written_->first != next_step) {
    PHUB_RETURN_IF_ERROR(as_loss(residuals_.save(next_step)));
  }
  if (now.second) PHUB_RETURN_IF_ERROR(as_loss(write_model(next_step)));
  written_ = now;
  return {};
}

Status RunCheckpoints::judge(double test_accuracy) {
  if (!options_.checkpoint.best || !are_written() || test_accuracy <= best_) return {};
  best_ = test_accuracy;
  RunPosition position = position_of(options_, parts_.trainer, parts_.trainer.next_step());
  position.test_accuracy = test_accuracy;
  return as_loss(save_checkpoint(best_path(options_.checkpoint.path), parts_.network,
                                 parts_.exchange, position));
}

// A snapshot that fails costs itself, not the training. The checkpoint is written all the same, but
// not over an earlier one, which is half of a pair. REQUIRES: no key is under way.
Status RunCheckpoints::write_model(std::uint64_t next_step) {
  RunPosition position = position_of(options_, parts_.trainer, next_step);
  if (options_.checkpoint.snapshot) {
    const auto taken = parts_.exchange.snapshot();
    if (!taken) {
      const std::filesystem::path path = path_without_snapshot(options_.checkpoint.path);
      PHUB_RETURN_IF_ERROR(save_checkpoint(path, parts_.network, parts_.exchange, position));
      if (options_.note) {
        options_.note("train.snapshot: " + taken.error().message() +
                      "; training goes on, and the model of step " + std::to_string(next_step) +
                      " is in " + path.string());
      }
      return {};
    }
    for (const std::string& file : *taken) {
      position.snapshots += (position.snapshots.empty() ? "" : ", ") + file;
    }
  }
  PHUB_RETURN_IF_ERROR(
      save_checkpoint(options_.checkpoint.path, parts_.network, parts_.exchange, position));
  return last_.keep(next_step);
}

}  // namespace phub::train

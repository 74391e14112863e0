#include "worker/train/session_start.h"

#include <algorithm>
#include <string>

#include "worker/train/checkpoints/kept_checkpoints.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/exchange/residuals.h"

namespace phub::train {
namespace {

// A resumed run's momentum comes from beside the checkpoint, or is in the restored job already.
Status resume_momentum(const SessionOptions& options, nn::Executor& network,
                       GradientExchange& exchange, const RunPosition& start) {
  if (options.checkpoint.restart_momentum) {
    const bool has_none_to_leave =
        exchange.facts().state_at == StateAt::kNowhere || exchange.facts().steps_before > 0;
    if (!has_none_to_leave) return {};
    return {Code::kInvalidArgument,
            "train.restart_momentum: there is no momentum to leave out: optimizer.rule has none, "
            "or the job was restored with it; remove the option"};
  }
  switch (exchange.facts().state_at) {
    case StateAt::kNowhere:
      return {};
    case StateAt::kHere:
      return load_optimizer(options.checkpoint.resume, network, exchange, start.next_step);
    case StateAt::kServers:
      break;
  }
  if (exchange.facts().steps_before > 0) return {};
  return {
      Code::kInvalidArgument,
      "train.resume: the momentum of checkpoint " + options.checkpoint.resume.string() +
          " was at the servers and this job starts without: restore the job from its snapshot (" +
          (start.snapshots.empty() ? "phubctl snapshots lists them" : start.snapshots) +
          ") first, by phubctl restore FILE --as JOB, or go on with a momentum of 0 by "
          "train.restart_momentum (--restart-momentum)"};
}

// A snapshot and a checkpoint of the same step have the same parameters, as they travel. REQUIRES:
// the gradient arrays have the checkpoint's.
Status check_one_run(const SessionOptions& options, const nn::Executor& network,
                     GradientExchange& exchange) {
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const auto restored = exchange.parameter(key);
    if (std::equal(restored.begin(), restored.end(), exchange.gradient(key).begin())) continue;
    return {Code::kInvalidArgument,
            "train.resume: checkpoint " + options.checkpoint.resume.string() +
                " and the snapshot that the job was restored from are not of one run (" +
                network.parameters()[key].name + " differs): restore the snapshots that the " +
                "checkpoint names, or leave train.resume out"};
  }
  return {};
}

// Where a worker goes on that has no checkpoint of its own to resume from, in a job that was
// restored at `step`. What is not in the servers' snapshots comes from the checkpoint that worker 0
// wrote.
Result<RunPosition> position_after_loss(const SessionOptions& options, std::uint64_t step) {
  if (options.update.loss_scale.kind != LossScaling::kVoted) return RunPosition{};
  for (const auto& path : checkpoints_there(options.checkpoint.path)) {
    const auto position = read_position(path);
    if (position && position->next_step == step) return position;
  }
  return Status(Code::kInvalidArgument,
                "train.recover_s: the loss scale of step " + std::to_string(step) +
                    " is in the checkpoint of worker 0, and neither " +
                    options.checkpoint.path.string() + " nor one that stays beside it is of that " +
                    "step here: give train.checkpoint a folder that all workers share, or use a "
                    "static loss_scale");
}

}  // namespace

Result<RunPosition> initialise(const SessionOptions& options, nn::Executor& network,
                               GradientExchange& exchange) {
  RunPosition start;
  if (options.checkpoint.resume.empty()) {
    fill_initial(network, options.seed, exchange);
  } else {
    PHUB_ASSIGN_OR_RETURN(const RunPosition position,
                          load_checkpoint(options.checkpoint.resume, network, exchange));
    if (position.model != options.model || position.seed != options.seed) {
      return Status(Code::kInvalidArgument, "checkpoint " + options.checkpoint.resume.string() +
                                                " is of model " + position.model + " with seed " +
                                                std::to_string(position.seed) +
                                                ": resume with the same model.name and train.seed");
    }
    start = position;
  }
  const std::uint64_t restored = exchange.facts().steps_before;
  const bool goes_on = options.checkpoint.recovers && restored > 0;
  if (goes_on && options.checkpoint.resume.empty()) {
    PHUB_ASSIGN_OR_RETURN(start, position_after_loss(options, restored));
  }
  if (!options.checkpoint.resume.empty()) {
    PHUB_RETURN_IF_ERROR(resume_momentum(options, network, exchange, start));
  }
  if (restored > 0 && !options.checkpoint.resume.empty() && restored != start.next_step) {
    return Status(Code::kInvalidArgument, "checkpoint " + options.checkpoint.resume.string() +
                                              " is at step " + std::to_string(start.next_step) +
                                              " and the job was restored from a snapshot at " +
                                              "step " + std::to_string(restored) +
                                              ": leave train.resume out");
  }
  PHUB_RETURN_IF_ERROR(exchange.initialise());
  if (restored > 0 && !options.checkpoint.resume.empty()) {
    PHUB_RETURN_IF_ERROR(check_one_run(options, network, exchange));
  }
  if (restored > 0) start.next_step = restored;
  PHUB_ASSIGN_OR_RETURN(
      const std::string missing,
      resume_residuals(goes_on ? options.checkpoint.path : options.checkpoint.resume, network,
                       exchange, start.next_step));
  if (!options.note) return start;
  if (!missing.empty()) options.note("train.resume: " + missing);
  if (goes_on) options.note("going on at step " + std::to_string(start.next_step));
  return start;
}

}  // namespace phub::train

#include "worker/train/session.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/affinity.h"
#include "common/rendezvous/end_reasons.h"
#include "worker/nn/executor.h"
#include "worker/nn/models/models.h"
#include "worker/train/exchange/gpu_direct.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/exchange/residuals.h"
#include "worker/train/report/loss_lines.h"
#include "worker/train/report/reporter.h"
#include "worker/train/run_checkpoints.h"
#include "worker/train/session_data.h"
#include "worker/train/session_spread.h"
#include "worker/train/session_start.h"
#include "worker/train/stages/stages.h"
#include "worker/train/trainer.h"

namespace phub::train {
namespace {

Result<nn::Graph> make_graph(const SessionOptions& options) {
  if (options.graph) return *options.graph;
  return nn::make_model(options.model);
}

std::vector<KeySpec> make_keys(const SessionOptions& options, const nn::Executor& network) {
  std::vector<KeySpec> keys = keys_of(network);
  for (std::size_t key = 0; key < keys.size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    if (spec.decays() || options.update.decay_bias)
      keys[key].weight_decay = options.update.weight_decay;
    keys[key].exclude_from_lars = !spec.lars() && options.update.exclude_bias_from_lars;
  }
  return keys;
}

// Of the batch of all workers, in parts of an even share.
double share_of(const SessionOptions& options) {
  return static_cast<double>(options.executor.batch) * options.workers /
         static_cast<double>(global_batch(options));
}

// Of a step's pushes.
float samples_of(const SessionOptions& options) {
  if (!options.servers_weigh) return 0.0F;
  const std::uint64_t images = std::uint64_t{options.executor.batch} * options.update.accumulate;
  return std::min(static_cast<float>(images), kSamplesMax);
}

// A dynamic scale goes on where the checkpoint left it.
LossScalerOptions loss_scale_from(const SessionOptions& options, const RunPosition& start) {
  LossScalerOptions loss_scale = options.update.loss_scale;
  if (loss_scale.kind == LossScaling::kVoted && start.loss_scale > 0.0F) {
    loss_scale.scale = start.loss_scale;
    loss_scale.good_steps = start.good_steps;
  }
  return loss_scale;
}

Status check_checkpoint(const SessionOptions& options) {
  // What is there gives way to the checkpoint: a device would be gone for the whole machine.
  std::error_code error;
  const std::filesystem::file_status found =
      std::filesystem::status(options.checkpoint.path, error);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return {Code::kInvalidArgument,
            "train.checkpoint: " + options.checkpoint.path.string() +
                (std::filesystem::is_directory(found) ? " is a folder" : " is a device or a FIFO") +
                ": give the name of a file"};
  }
  const std::filesystem::path folder =
      options.checkpoint.path.has_parent_path() ? options.checkpoint.path.parent_path() : ".";
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return {Code::kInvalidArgument, "train.checkpoint: cannot write in " + folder.string() + " (" +
                                      std::strerror(errno) + "): make it, or choose another"};
}

// Whether the checkpoint's samples are those of this training. What else may be wrong with it is
// said when it is loaded.
Status check_samples(const SessionOptions& options, std::uint64_t images) {
  if (options.checkpoint.resume.empty()) return {};
  const Result<RunPosition> position = read_position(options.checkpoint.resume);
  if (!position || position->samples == 0 || position->samples == images) return {};
  return {Code::kInvalidArgument, "train.resume: checkpoint " + options.checkpoint.resume.string() +
                                      " has used samples of a set of " +
                                      std::to_string(position->samples) + ", and data has " +
                                      std::to_string(images) +
                                      " training images: resume with the set that it was trained "
                                      "on"};
}

Status check_something_is_left(const SessionOptions& options, std::uint64_t first_step,
                               std::uint64_t last_step) {
  if (first_step < last_step) return {};
  const std::string from = options.checkpoint.resume.empty()
                               ? "the snapshot that the job was restored from"
                               : "checkpoint " + options.checkpoint.resume.string();
  return {Code::kInvalidArgument,
          from + " is at step " + std::to_string(first_step) + " and the training ends at step " +
              std::to_string(last_step) + ": raise train.epochs (and train.max_steps) to go on"};
}

// In steps of this run's size, also of a training that began with others.
Schedule make_schedule(const SessionOptions& options, const data::TrainingOrder& order) {
  const auto steps = [&](std::uint64_t epochs) {
    return epochs * order.images() / order.samples_per_step();
  };
  Schedule schedule = options.update.schedule;
  schedule.total_steps = steps(options.epochs);
  schedule.drops.clear();
  for (const std::uint32_t epoch : options.update.drop_epochs) {
    schedule.drops.push_back(steps(epoch));
  }
  return schedule;
}

// Whether the checkpoint that a run goes on from after a loss is of its last step.
Result<bool> is_over(const SessionOptions& options, std::uint64_t images,
                     data::TrainingOptions order_options) {
  if (!options.checkpoint.recovers || options.checkpoint.resume.empty()) return false;
  PHUB_ASSIGN_OR_RETURN(const RunPosition position, read_position(options.checkpoint.resume));
  order_options.start = {.step = position.next_step, .used = position.used};
  const data::TrainingOrder order(images, order_options);
  return position.next_step >= last_step_of(options.epochs, options.max_steps, order);
}

// The run's network. `stages`: makes it anew for images of other sizes; null with one size.
Result<std::unique_ptr<nn::Executor>> make_run_network(const SessionOptions& options,
                                                       const nn::Graph& graph,
                                                       const data::ImageSets& sets,
                                                       std::unique_ptr<Stages>& stages) {
  if (options.data.progressive.empty()) return make_executor(graph, options.executor);
  PHUB_ASSIGN_OR_RETURN(stages, Stages::create(options.data.progressive, graph, sets));
  return stages->make_network(
      [&options](const nn::Graph& resized) { return make_executor(resized, options.executor); });
}

struct Run {
  nn::Executor& network;
  GradientExchange& exchange;
  const data::Images& images;
  const data::TrainingOptions& order;
  const data::Images& test;
  Metrics* metrics = nullptr;
  EventFile* events = nullptr;
  data::SpreadSet* spread = nullptr;  // the images, where workers hold them together
  Stages* stages = nullptr;           // null: all epochs have images of one size
};

// What a run that goes on uses next: what its checkpoint says, or else its snapshot, or else as if
// all steps had been of this size.
Result<data::TrainingOptions> order_from(const SessionOptions& options, const Run& run,
                                         const RunPosition& start) {
  const std::uint64_t images = run.images.images();
  data::TrainingOptions order = run.order;
  order.start = {.step = start.next_step, .used = start.used};
  if (start.samples > 0) return order;
  // Earlier builds left out what filled no step at an epoch's end.
  const std::uint64_t in_step = order.global_batch() * order.accumulate;
  const std::uint64_t steps = images / in_step;
  order.start.used = start.next_step / steps * images + start.next_step % steps * in_step;
  const SampleLedger& restored = run.exchange.facts().samples_before;
  if (!restored.is_known()) return order;
  if (restored.samples != images || restored.seed != options.seed) {
    return Status(Code::kInvalidArgument,
                  "train.seed, data: the snapshot that the job was restored from has used "
                  "samples of a set of " +
                      std::to_string(restored.samples) + " with seed " +
                      std::to_string(restored.seed) + ", and this training has " +
                      std::to_string(images) + " with seed " + std::to_string(options.seed) +
                      ": go on with the same set and seed");
  }
  order.start.used = restored.used;
  return order;
}

RunDescription describe(const SessionOptions& options, const GradientExchange& exchange,
                        std::uint64_t first_step) {
  const auto& encoding = options.report.encoding;
  return {.model = options.model,
          .transport = std::string(exchange.facts().transport),
          .worker_index = exchange.facts().worker_index,
          .workers = exchange.facts().workers,
          .batch = options.executor.batch,
          .seed = options.seed,
          .first_step = first_step,
          .encoding = encoding ? encoding->chosen : "",
          .predicted = encoding ? encoding->predicted : std::vector<PredictedEncoding>()};
}

// An end that was planned and is not a good one, whatever ended it: a checkpoint is missing.
Status not_saved(const std::string& ending, const Status& why, std::uint64_t step) {
  return {Code::kDataLoss, "an end was planned (" + ending + "), but the checkpoint after step " +
                               std::to_string(step) + " was not written: " + why.message()};
}

TrainerOptions trainer_options(const SessionOptions& options, const RunPosition& start,
                               const data::TrainingOrder& order) {
  return {.epochs = options.epochs,
          .max_steps = options.max_steps,
          .first_step = start.next_step,
          .schedule = make_schedule(options, order),
          .momentum = options.update.momentum,
          .loss_scale = loss_scale_from(options, start),
          .accumulate = options.update.accumulate,
          .share = share_of(options),
          .batches = options.batches,
          .samples = samples_of(options),
          .label_smoothing = options.update.label_smoothing,
          .seed = options.seed,
          .feed = options.data.feed,
          .evaluate = options.evaluate,
          .boundary_steps = options.checkpoint.path.empty() ? 0 : options.checkpoint.every_steps};
}

// Notes about workers that the job goes on without, and about what this one does in their place.
class LossNotes {
 public:
  LossNotes(const SessionOptions& options, const GradientExchange& exchange)
      : options_(options), exchange_(exchange), lines_(exchange.facts().racks) {}

  void look() {
    if (!options_.note) return;
    for (const std::string& line : lines_.look(exchange_.workers_lost())) options_.note(line);
    if (exchange_.facts().worker_index == 0 || !leads(exchange_) || std::exchange(told_, true)) {
      return;
    }
    const std::string path = options_.checkpoint.path.string();
    options_.note("worker 0 was lost, so this worker evaluates now" +
                  (path.empty() ? "; it has no train.checkpoint, so nobody saves the model: "
                                  "`phubctl snapshot` keeps the parameters"
                                : " and saves the model in " + path));
  }

 private:
  const SessionOptions& options_;
  const GradientExchange& exchange_;
  LossLines lines_;
  bool told_ = false;  // that it leads
};

void note_feed_cpus(const SessionOptions& options) {
  const FeedOptions& feed = options.data.feed;
  if (feed.cpus.empty() || !options.note) return;
  options.note("data.threads: " + std::to_string(feed.threads) + " threads make batches on CPUs " +
               cpu_list(feed.cpus));
}

Result<SessionResult> train(const SessionOptions& options, const Run& run,
                            const std::function<bool()>& stopped) {
  PHUB_ASSIGN_OR_RETURN(const RunPosition start, initialise(options, run.network, run.exchange));
  const std::uint64_t first_step = start.next_step;
  PHUB_ASSIGN_OR_RETURN(const data::TrainingOptions order_options, order_from(options, run, start));
  const data::TrainingOrder order(run.images.images(), order_options);
  PHUB_RETURN_IF_ERROR(run.exchange.note_samples({.samples = order.images(),
                                                  .seed = options.seed,
                                                  .round = run.exchange.facts().steps_before,
                                                  .used = order_options.start.used,
                                                  .per_round = order.samples_per_step()}));
  SpreadReport samples(order, run.spread, run.metrics);
  const auto prints = [&] {
    return options.report.print == ReportOptions::Print::kAlways ||
           (options.report.print == ReportOptions::Print::kFirstWorker && leads(run.exchange));
  };
  TrainerOptions trainer_choice = trainer_options(options, start, order);
  trainer_choice.note = [&](std::string_view text) {
    if (prints() && options.note) options.note(text);
  };
  Trainer trainer(
      {run.network, run.exchange, run.images, order, run.test, samples.deliveries(), run.stages},
      trainer_choice);
  PHUB_RETURN_IF_ERROR(check_something_is_left(options, first_step, trainer.last_step()));
  RunCheckpoints checkpoints(options, {run.network, run.exchange, trainer}, first_step);
  Reporter reporter({.epochs = options.epochs,
                     .last_step = trainer.last_step(),
                     .quiet = [&] { return !prints(); },
                     .bar = options.report.bar},
                    {.metrics = run.metrics,
                     .events = run.events,
                     .checkpoint = [&](std::uint64_t step) { return checkpoints.write(step); },
                     .evaluated = [&](double accuracy) { return checkpoints.judge(accuracy); }});
  if (run.events != nullptr && first_step > 0) run.events->resume_at(first_step);
  if (run.metrics != nullptr) run.metrics->start(describe(options, run.exchange, first_step));
  if (prints()) note_feed_cpus(options);
  LossNotes losses(options, run.exchange);
  const auto is_last = [&, asked = false]() mutable -> Result<bool> {
    if (options.stepped) options.stepped();
    if (prints()) losses.look();
    if (!asked && stopped()) {
      asked = true;
      PHUB_RETURN_IF_ERROR(run.exchange.end(
          "worker " + std::to_string(run.exchange.facts().worker_index) + " was asked to stop"));
    }
    const Result<bool> last = run.exchange.is_last(trainer.next_step());
    samples.look(!last || *last || trainer.next_step() == trainer.last_step());
    return last;
  };
  const Status trained = trainer.run(reporter, is_last);
  samples.finish();
  const std::string ending = run.exchange.ending();
  // A server that stops, and is gone too early, is a loss.
  const bool is_planned =
      !ending.empty() && !(options.checkpoint.recovers && ending.starts_with(client::kServerStops));
  const auto loss = [&](const Status& why) {
    return is_planned ? not_saved(ending, why, trainer.next_step()) : why;
  };
  if (!trained.ok()) return checkpoints.are_written() ? loss(trained) : trained;
  const Status written = checkpoints.write(trainer.next_step());
  if (!written.ok()) return loss(written);
  PHUB_RETURN_IF_ERROR(reporter.close(run.exchange.statistics()));
  const bool interrupted = trainer.next_step() < trainer.last_step();
  return SessionResult{.next_step = trainer.next_step(),
                       .interrupted = interrupted,
                       .ending = interrupted ? ending : "",
                       .test_accuracy = reporter.test_accuracy(),
                       .train_seconds = reporter.train_seconds()};
}

}  // namespace

Result<SessionResult> run_session(const SessionOptions& options, const ExchangeFactory& factory,
                                  const std::function<bool()>& stopped) {
  PHUB_ASSIGN_OR_RETURN(const nn::Graph graph, make_graph(options));
  data::SpreadSet* spread = nullptr;
  PHUB_ASSIGN_OR_RETURN(const data::ImageSets sets, load_data(options, graph, &spread, stopped));
  PHUB_RETURN_IF_ERROR(check_fit(options, graph, sets.train->facts()));
  std::unique_ptr<Stages> stages;
  PHUB_ASSIGN_OR_RETURN(auto network, make_run_network(options, graph, sets, stages));
  // Everything that can be wrong with this worker alone comes before the others wait for it.
  std::unique_ptr<Metrics> metrics;
  if (!options.report.metrics.empty()) {
    PHUB_ASSIGN_OR_RETURN(
        metrics, Metrics::open(options.report.metrics,
                               !options.checkpoint.resume.empty() || options.checkpoint.recovers));
  }
  if (!options.report.tensorboard.empty())
    PHUB_RETURN_IF_ERROR(EventFile::check(options.report.tensorboard));
  data::TrainingOptions order_options{.batch = options.executor.batch,
                                      .workers = options.workers,
                                      .worker_index = 0,
                                      .part = options.part,
                                      .seed = options.seed,
                                      .accumulate = options.update.accumulate,
                                      .shift_pixels = options.data.shift_pixels,
                                      .flip = options.data.flip,
                                      .mixup = options.data.mixup};
  PHUB_RETURN_IF_ERROR(data::TrainingOrder::check(sets.train->images(), order_options));
  PHUB_RETURN_IF_ERROR(check_samples(options, sets.train->images()));
  if (network->parameters().empty()) {
    return Status(Code::kInvalidArgument,
                  "model " + options.model + " has no parameters: there is nothing to train");
  }
  PHUB_ASSIGN_OR_RETURN(const bool is_trained,
                        is_over(options, sets.train->images(), order_options));
  if (is_trained) {
    if (options.note) {
      options.note("train.recover_s: checkpoint " + options.checkpoint.resume.string() +
                   " is of the last step: the training is over");
    }
    return SessionResult();
  }
  PHUB_ASSIGN_OR_RETURN(const auto exchange, factory(make_keys(options, *network)));
  order_options.worker_index = exchange->facts().worker_index;
  if (spread != nullptr) PHUB_RETURN_IF_ERROR(begin_spread(options, *spread, exchange->facts()));
  const bool saves =
      leads(*exchange) || exchange->facts().may_lead || keeps_back(*network, *exchange);
  if (saves && !options.checkpoint.path.empty()) {
    PHUB_RETURN_IF_ERROR(check_checkpoint(options));
  }
  if (options.checkpoint.snapshot) {
    PHUB_RETURN_IF_ERROR(exchange->check_snapshots().with_context("train.snapshot"));
  }
  // A device may be writing to the exchange's arrays until it goes: before the exchange does.
  const std::unique_ptr<nn::Executor> executor = std::move(network);
  const bool on_gpu = options.executor.backend == BackendKind::kCuda;
  PHUB_RETURN_IF_ERROR(bind_direct(*executor, *exchange,
                                   {.wanted = on_gpu ? options.gpu_direct : GpuDirect::kOff,
                                    .sums = options.update.accumulate > 1,
                                    .note = options.executor.cuda.executor.note}));
  std::unique_ptr<EventFile> events;
  if (!options.report.tensorboard.empty()) {
    PHUB_ASSIGN_OR_RETURN(
        events, EventFile::open(options.report.tensorboard /
                                ("worker-" + std::to_string(exchange->facts().worker_index))));
  }
  return train(options,
               {*executor, *exchange, *sets.train, order_options, *sets.test, metrics.get(),
                events.get(), spread, stages.get()},
               stopped);
}

}  // namespace phub::train

#include "worker/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "common/samples/random.h"
#include "kernels/reduce.h"
#include "worker/train/evaluation.h"
#include "worker/train/exchange/initialise.h"

namespace phub::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Nothing is made ahead that no step takes.
FeedOptions feed_until(FeedOptions feed, std::uint64_t end) {
  feed.end = end;
  return feed;
}

}  // namespace

// Ties the network's layers to the exchange and measures the time that it takes. Of a step's
// batches but the last, gradients are added up; the last one's go out with them.
class Trainer::ExchangeHooks : public nn::Hooks {
 public:
  // `sums` and `sender` are there for training: the first where gradients are added up, the second
  // to be called from time to time while the device works on backward.
  explicit ExchangeHooks(GradientExchange& exchange, KeyArrays* sums = nullptr,
                         std::function<Status()> sender = {})
      : exchange_(exchange), sums_(sums), sender_(std::move(sender)) {}

  void begin_batch(bool is_first, bool is_last, StepReport& report) {
    is_first_ = is_first;
    is_last_ = is_last;
    report_ = &report;
  }

  Status weights_needed(const nn::KeyRange& keys) override {
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchange_.wait(key));
    }
    seconds_ += seconds_since(start);
    return {};
  }

  Status loss_known(const nn::Loss& loss) override {
    report_->loss += loss.sum;
    report_->correct += loss.correct;
    if (std::isfinite(loss.sum)) return {};
    return {Code::kAborted, "the loss is no longer finite in step " +
                                std::to_string(report_->step) +
                                ": lower optimizer.learning_rate or add warm-up steps"};
  }

  Status grad_ready(const nn::KeyRange& keys) override {
    if (sender_) PHUB_RETURN_IF_ERROR(sender_());
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      if (!is_first_ || !is_last_) add_up(key);
      if (is_last_) PHUB_RETURN_IF_ERROR(exchange_.push(key));
    }
    seconds_ += seconds_since(start);
    return {};
  }

  Status grad_checked(const nn::KeyRange& keys, nn::Finite finite) override {
    if (!is_first_ || !is_last_) return grad_ready(keys);
    if (sender_) PHUB_RETURN_IF_ERROR(sender_());
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchange_.push_checked(key, finite == nn::Finite::kYes));
    }
    seconds_ += seconds_since(start);
    return {};
  }

  double seconds() const { return seconds_; }

 private:
  void add_up(KeyId key) {
    const std::span<float> gradient = exchange_.gradient(key);
    const std::span<float> sum = sums_->of(key);
    if (is_first_) {
      std::copy(gradient.begin(), gradient.end(), sum.begin());
      return;
    }
    const auto source = [](std::span<float> of) {
      return kernels::Source{std::as_bytes(of).data(), DataType::kFloat32};
    };
    const std::span<float> out = is_last_ ? gradient : sum;
    kernels::add(out.data(), source(out), source(is_last_ ? sum : gradient), out.size());
  }

  GradientExchange& exchange_;
  KeyArrays* sums_;
  std::function<Status()> sender_;
  StepReport* report_ = nullptr;  // of a step in training
  bool is_first_ = true;
  bool is_last_ = true;
  double seconds_ = 0.0;
};

Trainer::Trainer(const TrainerParts& parts, const TrainerOptions& options)
    : parts_(parts),
      options_(options),
      next_step_(options.first_step),
      scaler_(options.loss_scale),
      sums_(options.accumulate > 1 ? keys_of(parts.network) : std::vector<KeySpec>()),
      meter_(options.feed.threads) {
  parts_.exchange.set_steps(next_step_, last_step());
  load_from(parts_.images, last_step());
}

// Batches of the steps before `end`.
void Trainer::load_from(const data::Images& images, std::uint64_t end) {
  batches_.emplace(images, parts_.order, feed_until(options_.feed, end * options_.accumulate),
                   parts_.network);
}

// REQUIRES: no key is under way, where the epoch has images of another size.
Status Trainer::begin_stage(std::uint64_t epoch) {
  if (parts_.stages == nullptr || parts_.stages->is_begun(epoch)) return {};
  Stages& stages = *parts_.stages;
  batches_.reset();  // a batch ahead is in the network's memory
  PHUB_RETURN_IF_ERROR(stages.begin(epoch));
  const std::uint64_t end_epoch = stages.end_of(epoch);
  load_from(stages.train(), end_epoch < options_.epochs
                                ? std::min(last_step(), parts_.order.steps_in(end_epoch))
                                : last_step());
  const std::string side = std::to_string(stages.train().facts().height);
  if (options_.note) {
    options_.note("data.progressive: images of " + side + " x " + side + " pixels from epoch " +
                  std::to_string(epoch + 1) + " on");
  }
  return {};
}

std::uint64_t last_step_of(std::uint64_t epochs, std::uint64_t max_steps,
                           const data::TrainingOrder& order) {
  const std::uint64_t all = order.steps_in(epochs);
  return max_steps > 0 ? std::min(all, max_steps) : all;
}

std::uint64_t Trainer::last_step() const {
  return last_step_of(options_.epochs, options_.max_steps, parts_.order);
}

Result<StepReport> Trainer::step(std::uint64_t index) {
  PHUB_RETURN_IF_ERROR(begin_stage(parts_.order.epoch_of(index)));
  const auto start = Clock::now();
  StepReport report{
      .step = index,
      .epoch = parts_.order.epoch_of(index),
      .epoch_step = parts_.order.step_of_epoch(index),
      .steps_per_epoch = parts_.order.steps_per_epoch(),
      .learning_rate = learning_rate_at(options_.schedule, index, parts_.order.steps_alike(index))};
  ExchangeHooks hooks(parts_.exchange, &sums_, [this] { return batches_->send_ahead(); });
  for (std::uint32_t part = 0; part < options_.accumulate; ++part) {
    PHUB_RETURN_IF_ERROR(batch(index, part, hooks, report));
  }
  PHUB_RETURN_IF_ERROR(parts_.exchange.end_step(report.loss_scale));
  verdict_is_due_ = true;
  const double images = static_cast<double>(batches_->labels().size()) * options_.accumulate;
  report.loss /= images;
  report.accuracy = report.correct / images;
  report.seconds = seconds_since(start);
  report.exchange_seconds = hooks.seconds();
  report.images = images_of_all();
  return report;
}

double Trainer::images_of_all() const {
  const auto batch_of = [&](std::uint32_t worker) {
    return options_.batches.empty() ? parts_.network.batch() : options_.batches[worker];
  };
  std::uint64_t images = 0;
  const std::uint32_t workers = parts_.exchange.facts().workers;
  for (std::uint32_t worker = 0; worker < workers; ++worker) images += batch_of(worker);
  for (const std::uint32_t worker : parts_.exchange.workers_lost()) {
    if (worker < workers) images -= batch_of(worker);
  }
  return static_cast<double>(images * options_.accumulate);
}

// Forward and backward of one of a step's batches. The first forward has waited for every key, so
// then it is known what became of the last step.
Status Trainer::batch(std::uint64_t index, std::uint32_t part, ExchangeHooks& hooks,
                      StepReport& report) {
  const bool is_last = part + 1 == options_.accumulate;
  hooks.begin_batch(part == 0, is_last, report);
  const std::uint64_t of_all = index * options_.accumulate + part;
  const auto start = Clock::now();
  batches_->hold();
  PHUB_RETURN_IF_ERROR(batches_->load(of_all));
  meter_.add(batches_->receipts());
  if (parts_.deliveries != nullptr) parts_.deliveries->add(of_all, batches_->receipts());
  report.input_seconds += seconds_since(start);
  if (!is_last || is_within_epoch(index + 1)) {
    PHUB_RETURN_IF_ERROR(batches_->begin_ahead(of_all + 1));
  }
  CounterRandom noise(options_.seed, Purpose::kDropout, parts_.exchange.facts().worker_index,
                      of_all);
  parts_.network.set_noise(noise.next());
  PHUB_RETURN_IF_ERROR(parts_.network.forward(nn::Mode::kTraining, hooks));
  batches_->go_on();  // the last step's replies have come
  PHUB_RETURN_IF_ERROR(take_verdict());
  report.loss_scale = scaler_.scale();
  report.skipped_steps = skipped_steps_;
  PHUB_RETURN_IF_ERROR(parts_.network.start_loss(
      {.label_smoothing = options_.label_smoothing,
       .gradient_scale =
           own_weight() * static_cast<double>(scaler_.scale()) / options_.accumulate}));
  if (is_last) {
    PHUB_RETURN_IF_ERROR(parts_.exchange.set_loss_scale(report.loss_scale));
    PHUB_RETURN_IF_ERROR(parts_.exchange.set_hyper(
        {.learning_rate = report.learning_rate,
         .momentum = options_.momentum,
         .gradient_scale = 1.0F / static_cast<float>(parts_.exchange.facts().workers),
         .samples = options_.samples}));
  }
  return parts_.network.backward(hooks);
}

// REQUIRES: every key has been waited for.
Status Trainer::take_verdict() {
  if (!verdict_is_due_) return {};
  verdict_is_due_ = false;
  const bool skipped = parts_.exchange.step_was_skipped();
  skipped_steps_ += skipped ? 1 : 0;
  return scaler_.after_step(skipped);
}

Status Trainer::wait_all() {
  for (KeyId key = 0; key < parts_.network.parameters().size(); ++key) {
    PHUB_RETURN_IF_ERROR(parts_.exchange.wait(key));
  }
  return take_verdict();
}

Result<double> Trainer::evaluate() {
  batches_->forget_ahead();
  ExchangeHooks hooks(parts_.exchange);
  PHUB_ASSIGN_OR_RETURN(const Evaluation evaluation,
                        train::evaluate(parts_.network, test_images(), options_.feed, hooks));
  return evaluation.top1;
}

// A server that is not told goes on all the same, and so does the training.
void Trainer::report_times(const StepReport& report) {
  const std::uint64_t images = std::uint64_t{parts_.network.batch()} * options_.accumulate;
  const auto times = meter_.take(report, images, parts_.images.reads());
  if (times) static_cast<void>(parts_.exchange.report_steps(*times));
}

// Turns the sums of an epoch into its report.
Status Trainer::finish_epoch(EpochReport& report, Observer& observer) {
  const auto start = Clock::now();
  PHUB_RETURN_IF_ERROR(wait_all());
  const double waited = seconds_since(start);
  meter_.add_wait(waited);
  report.seconds += waited;
  report.exchange_seconds += waited;
  const auto steps = static_cast<double>(report.steps);
  const double images = steps * parts_.network.batch() * options_.accumulate;
  report.skipped_steps = skipped_steps_;
  const data::ReadCounts reads = parts_.images.reads();
  report.reads = reads.since(reads_);
  reads_ = reads;
  report.loss /= steps;
  report.train_accuracy /= images;
  report.images_per_second = report.images / report.seconds;
  if (options_.evaluate && leads(parts_.exchange)) {
    PHUB_ASSIGN_OR_RETURN(report.test_accuracy, evaluate());
  }
  return observer.on_epoch(report);
}

Status Trainer::run(Observer& observer, const std::function<Result<bool>()>& is_last) {
  const std::uint64_t end = last_step();
  EpochReport epoch;
  bool stop = false;
  while (next_step_ < end && !stop) {
    PHUB_ASSIGN_OR_RETURN(const StepReport report, step(next_step_));
    ++next_step_;
    report_times(report);
    observer.on_step(report);
    epoch.epoch = report.epoch;
    ++epoch.steps;
    epoch.loss += report.loss;
    epoch.train_accuracy += report.correct;
    epoch.images += report.images;
    epoch.seconds += report.seconds;
    epoch.exchange_seconds += report.exchange_seconds;
    epoch.input_seconds += report.input_seconds;
    PHUB_ASSIGN_OR_RETURN(stop, is_last());
    if (!is_within_epoch(next_step_)) {
      PHUB_RETURN_IF_ERROR(finish_epoch(epoch, observer));
      epoch = {};
    }
    if (options_.boundary_steps > 0 && next_step_ % options_.boundary_steps == 0) {
      const auto start = Clock::now();
      PHUB_RETURN_IF_ERROR(wait_all());
      const double waited = seconds_since(start);
      meter_.add_wait(waited);
      epoch.seconds += waited;
      epoch.exchange_seconds += waited;
      PHUB_RETURN_IF_ERROR(observer.on_boundary(next_step_));
    }
  }
  return wait_all();
}

}  // namespace phub::train

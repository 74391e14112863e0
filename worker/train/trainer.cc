#include "worker/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "worker/data/random.h"
#include "worker/nn/loss.h"

namespace phub::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

// Ties the network's layers to the exchange and measures the time that it takes.
class Trainer::ExchangeHooks : public nn::Hooks {
 public:
  explicit ExchangeHooks(Exchanger& exchanger) : exchanger_(exchanger) {}

  Status weights_needed(const nn::KeyRange& keys) override {
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchanger_.wait(key));
    }
    seconds_ += seconds_since(start);
    return {};
  }

  Status grad_ready(const nn::KeyRange& keys) override {
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchanger_.push(key));
    }
    seconds_ += seconds_since(start);
    return {};
  }

  double seconds() const { return seconds_; }

 private:
  Exchanger& exchanger_;
  double seconds_ = 0.0;
};

Trainer::Trainer(const TrainerParts& parts, const TrainerOptions& options)
    : parts_(parts), options_(options), next_step_(options.first_step) {
  logits_.resize(parts.network.output().elements());
  logit_gradients_.resize(logits_.size());
  test_batch_.labels.resize(parts.network.batch());
}

std::uint64_t Trainer::last_step() const {
  const std::uint64_t all = options_.epochs * parts_.loader.steps_per_epoch();
  return options_.max_steps > 0 ? std::min(all, options_.max_steps) : all;
}

Result<StepReport> Trainer::step(std::uint64_t index) {
  const auto start = Clock::now();
  const std::uint64_t epoch = index / parts_.loader.steps_per_epoch();
  StepReport report{
      .step = index, .epoch = epoch, .learning_rate = learning_rate_at(options_.schedule, index)};
  parts_.loader.load(epoch, index % parts_.loader.steps_per_epoch(), batch_);
  ExchangeHooks hooks(parts_.exchanger);
  parts_.network.input().write_value(batch_.images);
  data::CounterRandom noise(options_.seed, data::Purpose::kDropout, parts_.exchanger.worker_index(),
                            index);
  parts_.network.set_noise(noise.next());
  PHUB_RETURN_IF_ERROR(parts_.network.forward(nn::Mode::kTraining, hooks));
  parts_.network.output().read_value(logits_);
  const nn::Loss loss = nn::softmax_cross_entropy(logits_, batch_.labels, logit_gradients_);
  if (!std::isfinite(loss.sum)) {
    return Status(Code::kAborted, "the loss is no longer finite in step " + std::to_string(index) +
                                      ": lower optimizer.learning_rate or add warm-up steps");
  }
  parts_.network.output().write_gradient(logit_gradients_);
  PHUB_RETURN_IF_ERROR(parts_.exchanger.set_hyper(
      {.learning_rate = report.learning_rate,
       .momentum = options_.momentum,
       .gradient_scale = 1.0F / static_cast<float>(parts_.exchanger.workers())}));
  PHUB_RETURN_IF_ERROR(parts_.network.backward(hooks));
  report.loss = loss.sum / static_cast<double>(batch_.labels.size());
  report.correct = loss.correct;
  report.seconds = seconds_since(start);
  report.exchange_seconds = hooks.seconds();
  return report;
}

Status Trainer::wait_all() {
  for (KeyId key = 0; key < parts_.network.parameters().size(); ++key) {
    PHUB_RETURN_IF_ERROR(parts_.exchanger.wait(key));
  }
  return {};
}

Result<double> Trainer::evaluate() {
  ExchangeHooks hooks(parts_.exchanger);
  std::uint64_t correct = 0;
  const std::size_t classes = logits_.size() / parts_.network.batch();
  for (std::size_t first = 0; first < parts_.test.images(); first += parts_.network.batch()) {
    data::load_in_order(parts_.test, first, test_batch_);
    parts_.network.input().write_value(test_batch_.images);
    PHUB_RETURN_IF_ERROR(parts_.network.forward(nn::Mode::kInference, hooks));
    parts_.network.output().read_value(logits_);
    const std::size_t count =
        std::min<std::size_t>(parts_.network.batch(), parts_.test.images() - first);
    correct += nn::softmax_cross_entropy(std::span(logits_).first(count * classes),
                                         std::span(test_batch_.labels).first(count))
                   .correct;
  }
  return static_cast<double>(correct) / static_cast<double>(parts_.test.images());
}

// Turns the sums of an epoch into its report.
Status Trainer::finish_epoch(EpochReport& report, Observer& observer) {
  const auto start = Clock::now();
  PHUB_RETURN_IF_ERROR(wait_all());
  const double waited = seconds_since(start);
  report.seconds += waited;
  report.exchange_seconds += waited;
  const auto steps = static_cast<double>(report.steps);
  const double images = steps * parts_.network.batch();
  report.loss /= steps;
  report.train_accuracy /= images;
  report.images_per_second = images * parts_.exchanger.workers() / report.seconds;
  if (options_.evaluate && parts_.exchanger.worker_index() == 0) {
    PHUB_ASSIGN_OR_RETURN(report.test_accuracy, evaluate());
  }
  observer.on_epoch(report);
  return {};
}

Status Trainer::run(Observer& observer, const std::function<bool()>& stopped) {
  const std::uint64_t end = last_step();
  EpochReport epoch;
  bool stop = false;
  while (next_step_ < end && !stop) {
    PHUB_ASSIGN_OR_RETURN(const StepReport report, step(next_step_));
    ++next_step_;
    observer.on_step(report);
    epoch.epoch = report.epoch;
    ++epoch.steps;
    epoch.loss += report.loss;
    epoch.train_accuracy += report.correct;
    epoch.seconds += report.seconds;
    epoch.exchange_seconds += report.exchange_seconds;
    stop = stopped();
    if (next_step_ % parts_.loader.steps_per_epoch() == 0 || next_step_ == end) {
      PHUB_RETURN_IF_ERROR(finish_epoch(epoch, observer));
      epoch = {};
    }
  }
  return wait_all();
}

}  // namespace phub::train

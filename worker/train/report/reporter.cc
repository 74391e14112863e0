#include "worker/train/report/reporter.h"

namespace phub::train {

void Reporter::on_step(const StepReport& report) {
  train_seconds_ += report.seconds;
  last_step_ = report.step;
  console_.step(report);
  if (parts_.metrics != nullptr) parts_.metrics->step(report);
  if (parts_.events == nullptr) return;
  parts_.events->add(report.step,
                     {{"train/loss", report.loss},
                      {"train/accuracy", report.accuracy},
                      {"train/learning_rate", static_cast<double>(report.learning_rate)},
                      {"train/loss_scale", static_cast<double>(report.loss_scale)},
                      {"train/skipped_steps", static_cast<double>(report.skipped_steps)},
                      {"speed/images_per_second", report.images / report.seconds},
                      {"speed/exchange_share", report.exchange_seconds / report.seconds},
                      {"speed/input_share", report.input_seconds / report.seconds}});
}

Status Reporter::on_epoch(const EpochReport& report) {
  test_accuracy_ = report.test_accuracy;
  console_.epoch(report);
  if (parts_.metrics != nullptr) parts_.metrics->epoch(report);
  const bool is_evaluated = report.test_accuracy >= 0.0;
  if (parts_.events != nullptr) {
    std::vector<Scalar> scalars = {{"epoch/loss", report.loss},
                                   {"epoch/train_accuracy", report.train_accuracy},
                                   {"epoch/images_per_second", report.images_per_second}};
    if (is_evaluated) scalars.push_back({"epoch/test_accuracy", report.test_accuracy});
    parts_.events->add(last_step_, scalars);
  }
  return is_evaluated && parts_.evaluated ? parts_.evaluated(report.test_accuracy) : Status();
}

Status Reporter::close(const ExchangeStatistics& statistics) {
  if (parts_.metrics != nullptr) PHUB_RETURN_IF_ERROR(parts_.metrics->close(statistics));
  return parts_.events != nullptr ? parts_.events->close() : Status();
}

}  // namespace phub::train

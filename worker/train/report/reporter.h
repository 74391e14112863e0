// Passes a run's progress on to who wants it: the console, the metrics, TensorBoard; and keeps what
// the result needs.
//
// Owned and called by the trainer's thread.
#pragma once

#include <functional>

#include "common/base/status.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/report/console.h"
#include "worker/train/report/event_file.h"
#include "worker/train/report/metrics.h"
#include "worker/train/report/observer.h"

namespace phub::train {

struct ReporterParts {
  Metrics* metrics = nullptr;   // null: nobody wants them
  EventFile* events = nullptr;  // null: no TensorBoard
  // Writes the checkpoint of a step that is whole; empty: none.
  std::function<Status(std::uint64_t next_step)> checkpoint = {};
  // Is told each accuracy on the test images, from 0 to 1; empty: nobody is.
  std::function<Status(double test_accuracy)> evaluated = {};
};

class Reporter : public Observer {
 public:
  Reporter(const ConsoleOptions& options, ReporterParts parts)
      : console_(options), parts_(std::move(parts)) {}

  void on_step(const StepReport& report) override;
  Status on_epoch(const EpochReport& report) override;
  Status on_boundary(std::uint64_t next_step) override {
    return parts_.checkpoint ? parts_.checkpoint(next_step) : Status();
  }

  // After the last step. Errors: what could not be written.
  Status close(const ExchangeStatistics& statistics);

  double train_seconds() const { return train_seconds_; }
  double test_accuracy() const { return test_accuracy_; }  // negative: not evaluated

 private:
  Console console_;
  ReporterParts parts_;
  std::uint64_t last_step_ = 0;
  double train_seconds_ = 0.0;
  double test_accuracy_ = -1.0;
};

}  // namespace phub::train

// A session's training set where the workers hold it together (data.spread): its place among them,
// and what it tells of each epoch.
//
// Functions and a class of the trainer's thread.
#pragma once

#include "common/base/status.h"
#include "worker/data/feed/deliveries.h"
#include "worker/data/spread/spread_set.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/report/metrics.h"
#include "worker/train/session.h"

namespace phub::train {

// Takes this worker's place, connects to the other ones, and begins to read ahead. Errors:
// kInvalidArgument names a worker without data.spread, or says that the memory does not do.
Status begin_spread(const SessionOptions& options, data::SpreadSet& set,
                    const ExchangeFacts& facts);

// Writes a line for each epoch. Without a set it does nothing.
class SpreadReport {
 public:
  // `order` outlives it. Null: there is no such set, or nobody wants metrics.
  SpreadReport(const data::TrainingOrder& order, data::SpreadSet* set, Metrics* metrics)
      : deliveries_(order), set_(set), metrics_(metrics) {}

  // For the trainer. Null: nobody has to be told of batches.
  data::Deliveries* deliveries() { return set_ == nullptr ? nullptr : &deliveries_; }
  // After each step. After the last one the other workers go, which is no news then.
  void look(bool is_last);
  // After the last step: what was given of an epoch that is not over.
  void finish();

 private:
  data::Deliveries deliveries_;
  data::SpreadSet* set_;
  Metrics* metrics_;
};

}  // namespace phub::train

// What a worker was given in each epoch: a sum over the samples, and where their bytes came from.
//
// Each epoch of all workers together has every sample once. So the sums of one epoch, added over
// the workers modulo 2^64, are the same number in every epoch, unless a sample was missed, came
// twice or had other bytes. Owned and called by the thread that takes the batches.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "worker/data/feed/order.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

struct EpochDeliveries {
  std::uint64_t epoch = 0;
  bool is_whole = false;                        // this run has had all of the epoch
  std::uint64_t sum = 0;                        // of the receipts' hashes, modulo 2^64
  std::uint64_t own = 0, peer = 0, source = 0;  // samples, by Origin

  std::uint64_t samples() const { return own + peer + source; }
};

class Deliveries {
 public:
  // `order` outlives it.
  explicit Deliveries(const TrainingOrder& order) : order_(order) {}

  // The batches of a run, one after another. Receipts of sets without an account are passed over.
  void add(std::uint64_t index, std::span<const Receipt> receipts);
  // An epoch that is over since the last call. Nothing: none is. REQUIRES: called after each add.
  std::optional<EpochDeliveries> take_over();
  // What was given of the epoch that is not over. Nothing: no sample of it was.
  std::optional<EpochDeliveries> rest() const;

 private:
  const TrainingOrder& order_;
  EpochDeliveries now_, next_;  // a batch may have samples of two epochs
  bool is_begun_ = false;
  bool is_cut_ = false;    // the run began within the epoch
  std::uint64_t end_ = 0;  // of the stream, so far
};

}  // namespace phub::data

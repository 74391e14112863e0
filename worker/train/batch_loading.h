// Batches of a set into an executor, in the form that the executor takes: bytes where a device
// moves and normalises them, else fp32. Either way the network sees the same numbers. Threads of
// data::Feeder make batches ahead. Where the executor takes one ahead, a thread copies it to where
// the device reads it from, during a step. Owned by the thread of the executor, which outlives it.
#pragma once

#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/feed/feeder.h"
#include "worker/nn/executor.h"

namespace phub::train {

// How batches are made ahead.
struct FeedOptions {
  std::uint32_t threads = 0;  // 0: none; a batch is made when it is asked for
  std::uint32_t ahead = 2;    // batches
  bool yields = false;  // batches come over the exchange's links, and begin when those are free
  std::uint64_t end = ~std::uint64_t{0};  // no batch from this one on is made ahead
  std::vector<std::uint32_t> cpus = {};   // where the threads run; empty: anywhere
};

class BatchLoading {
 public:
  // The set and the order outlive it.
  BatchLoading(const data::Images& images, const data::BatchOrder& order,
               const FeedOptions& options, nn::Executor& executor);

  // Loads batch `index` of the order: the one that was begun ahead, if it is that.
  Status load(std::uint64_t index);

  // Begins to bring to the device a batch that a later load asks for. Does nothing where the
  // executor takes none ahead.
  Status begin_ahead(std::uint64_t index);
  // Sends it to the device if it is made and not yet sent. Cheap: for backward's hooks.
  Status send_ahead();
  // Where batches yield: no further batch is begun until go_on. Cheap.
  void hold() {
    if (yields_) feeder_.hold();
  }
  void go_on() {
    if (yields_) feeder_.go_on();
  }
  // The executor is about to be loaded by others.
  void forget_ahead();

  // The labels of the last batch, of mixed images the first ones.
  std::span<const nn::Label> labels() const { return batch_.labels; }
  // What its set says of its images.
  std::span<const data::Receipt> receipts() const { return batch_.receipts; }

 private:
  struct Ahead {
    bool is_begun = false, is_sent = false;
    std::uint64_t index = 0;
    data::Batch batch{};
    std::vector<nn::ImageMove> moves{};
    std::future<Status> made{};  // last: its thread ends before what it writes to goes
  };

  static nn::Labels labels_of(const data::Batch& batch) {
    return {batch.labels, batch.second_labels, batch.shares};
  }
  nn::ByteImages bytes_of(const data::Batch& batch, std::vector<nn::ImageMove>& moves) const;
  Status take_ahead();

  nn::Executor& executor_;
  const data::ImageFacts& facts_;
  const bool yields_;
  data::Feeder feeder_;
  data::Batch batch_;
  std::vector<nn::ImageMove> moves_;
  Ahead ahead_;
};

}  // namespace phub::train

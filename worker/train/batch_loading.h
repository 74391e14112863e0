// Batches from a data set into an executor, in the form that the executor takes: bytes where a
// device moves and normalises them, else fp32 that is made here. Either way the network sees the
// same numbers. Where the executor takes a batch ahead, a thread copies the next one to where the
// device reads it from, during a step. Owned by the thread of the executor, which outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/loader.h"
#include "worker/nn/executor.h"

namespace phub::train {

class BatchLoading {
 public:
  // A training batch, as Loader::load: the one that was begun ahead, if it is that.
  Status load(data::Loader& loader, std::uint64_t epoch, std::uint64_t step,
              nn::Executor& executor);
  // The images from `first` on, as data::load_in_order, with the labels of those that there are.
  Status load_in_order(const data::Dataset& dataset, std::size_t first, nn::Executor& executor);

  // Begins to make a batch that a later load asks for; does nothing where the executor takes none
  // ahead. Until then the loader is not to be used. REQUIRES: as Loader::load.
  Status begin_ahead(data::Loader& loader, std::uint64_t epoch, std::uint64_t step,
                     nn::Executor& executor);
  // Sends it to the device if it is made and not yet sent. Cheap: for backward's hooks.
  Status send_ahead(nn::Executor& executor);
  // The executor is about to be loaded by others.
  void forget_ahead();

  // Of the last batch; for load_in_order, of the images that there are.
  std::span<const nn::Label> labels() const { return labels_; }

 private:
  // What a batch in bytes is, but its pixels.
  struct Bytes {
    data::ByteBatch batch{};
    std::vector<nn::ImageMove> moves{};
  };
  struct Ahead {
    const data::Dataset* dataset = nullptr;  // null: nothing was begun
    std::uint64_t epoch = 0, step = 0;
    bool is_sent = false;
    Bytes bytes{};
    std::future<void> made{};  // last: its thread ends before what it writes to goes
  };

  Status send(const data::Dataset& dataset, nn::ByteInput& input);
  Status take_ahead(nn::Executor& executor);
  void own_pixels(const data::Dataset& dataset, std::uint32_t batch);

  data::Batch reals_;
  std::vector<std::uint8_t> pixels_;  // of a batch that was not made ahead
  Bytes bytes_;
  Ahead ahead_;
  std::span<const nn::Label> labels_;
};

}  // namespace phub::train

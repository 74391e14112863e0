// Batches from a data set into a program, in the form that the program takes: bytes where a device
// moves and normalises them, else fp32 that is made here. Either way the network sees the same
// numbers. Owned by the thread of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/loader.h"
#include "worker/nn/program.h"

namespace phub::train {

class BatchLoading {
 public:
  // A training batch, as Loader::load.
  Status load(data::Loader& loader, std::uint64_t epoch, std::uint64_t step, nn::Program& program);
  // The images from `first` on, as data::load_in_order, with the labels of those that there are.
  Status load_in_order(const data::Dataset& dataset, std::size_t first, nn::Program& program);

  // Of the last batch; for load_in_order, of the images that there are.
  std::span<const nn::Label> labels() const { return labels_; }

 private:
  Status send(const data::Dataset& dataset, nn::Program& program);

  data::Batch reals_;
  data::ByteBatch bytes_;
  std::vector<nn::ImageMove> moves_;
  std::span<const nn::Label> labels_;
};

}  // namespace phub::train

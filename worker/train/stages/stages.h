// Smaller images in the first epochs (data.progressive): which stage an epoch belongs to, and the
// images and the network of the stage that is under way.
//
// Owned and called by the trainer's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/images.h"
#include "worker/nn/graph/graph.h"
#include "worker/train/stages/stage_options.h"
#include "worker/train/stages/staged_executor.h"

namespace phub::train {

class Stages {
 public:
  // `stages` have ascending ends. The last stage of all has the images of `sets` as they are, and
  // has no end. `sets` outlive it. Errors: kInvalidArgument names the layer, or the format, that
  // has one size only.
  static Result<std::unique_ptr<Stages>> create(std::span<const StageOptions> stages,
                                                const nn::Graph& graph,
                                                const data::ImageSets& sets);

  // The network of the last stage, which `begin` makes anew. Called once. Errors: those of `make`.
  Result<std::unique_ptr<nn::Executor>> make_network(StagedExecutor::Make make);

  // Changes the network, and the images below, to those of the epoch's stage. Does nothing where
  // they are that already. REQUIRES: make_network, whose network still is; no key and no batch is
  // under way. Errors: change_to's.
  Status begin(std::uint64_t epoch);

  bool is_begun(std::uint64_t epoch) const { return place_of(epoch) == present_; }
  // The first epoch of the next stage; without one the largest number.
  std::uint64_t end_of(std::uint64_t epoch) const { return stages_[place_of(epoch)].end_epoch; }

  // The stage that is under way has these: at first the last one.
  const data::Images& train() const { return *stages_[present_].train; }
  const data::Images& test() const { return *stages_[present_].test; }

 private:
  struct Stage {
    std::uint64_t end_epoch = 0;
    nn::Graph graph;
    std::unique_ptr<data::Images> own_train{}, own_test{};
    const data::Images *train = nullptr, *test = nullptr;
  };

  Stages() = default;
  std::size_t place_of(std::uint64_t epoch) const;

  std::vector<Stage> stages_;
  std::size_t present_ = 0;
  StagedExecutor* network_ = nullptr;  // the caller's
};

}  // namespace phub::train

// Several GPUs of a host as one Executor: each computes a part of the batch, and whoever trains
// sees one network with one set of parameters, one loss, one gradient.
//
// GPU r has images [r * batch / n, (r + 1) * batch / n). Parameters come in slices, one for each
// GPU, which gather them (ncclAllGather); gradients are summed and scattered (ncclReduceScatter) as
// soon as a part of backward is done on all, in the type that travels, and each GPU sends its
// slice. Losses are of the whole batch: each GPU's gradients are its share of the mean over all
// images, so that their sum is that mean, with the numbers one GPU would have, and the same loss
// scale. A sum that is not finite on one GPU is so for all keys of its part.
//
// What is not exchanged: batches are normalised GPU by GPU, and running statistics are those of the
// first GPU. They go to the others before an evaluation and when the host has read (and perhaps
// changed) them, so a run that is resumed from a checkpoint has the bits of one that went on, where
// collectives have the same bits each time.
// Dropout draws for each GPU its own masks.
//
// Passes are captured as in DevicePasses; collectives are queued between graphs, never in one.
// Waits and failures are GpuRanks'. Used by the thread that made it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/cuda/group/collectives.h"
#include "worker/cuda/group/gpu_ranks.h"
#include "worker/cuda/group/group_input.h"
#include "worker/cuda/group/group_optimizer.h"
#include "worker/cuda/group/group_statistics.h"
#include "worker/cuda/group/sharded_exchange.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

struct GpuGroupOptions {
  std::chrono::milliseconds timeout{30'000};  // of a wait for the GPUs
  std::size_t parts = 16;                     // of a backward pass, about
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

class GpuGroup : public Executor {
 public:
  // The passes are of the same graph and batch. REQUIRES: as many ranks as GPUs, at least 1.
  static Result<std::unique_ptr<GpuGroup>> create(std::vector<GpuRank> gpus,
                                                  std::unique_ptr<Collectives> collectives,
                                                  const GpuGroupOptions& options);
  ~GpuGroup() override;  // waits for the devices, until the timeout

  const std::vector<ParameterSpec>& parameters() const override {
    return gpus_->first().parameters();
  }
  Result<std::vector<StateBuffer>> read_buffers() override { return statistics_.read(); }

  bool binds(DataType) const override { return true; }
  Status bind_typed(const TypedBindings& bindings) override;
  Result<ExportedMemoryPointer> export_gradients(std::size_t /*bytes*/) override {
    return Status(Code::kFailedPrecondition,
                  "several GPUs (train.devices) push their slices from the host's memory");
  }
  Status keep_parameters(std::span<const std::vector<float>> initial) override;
  Status update(const OwnRule& rule) override;

  std::uint32_t batch() const override { return input_.batch(); }
  std::size_t input_elements() const override { return input_.elements(); }
  std::size_t output_elements() const override {
    return gpus_->first().output_elements() * gpus_->count();
  }

  void set_noise(std::uint64_t noise) override { input_.set_noise(noise); }
  Status load(std::span<const float> images, const Labels& labels) override {
    return input_.load(images, labels);
  }
  ByteInput* byte_input() override { return &input_; }
  Status forward(Mode mode, Hooks& hooks) override;
  Status read_output(std::span<float> host) override;
  Status start_loss(const LossOptions& options) override;
  Status backward(Hooks& hooks) override;

 private:
  GpuGroup(std::unique_ptr<GpuRanks> gpus, const GpuGroupOptions& options)
      : options_(options), gpus_(std::move(gpus)), input_(*gpus_), statistics_(*gpus_) {}

  void cut(bool exchanges);
  Status run_segment(Pass pass, std::size_t segment, Hooks& hooks);
  Status bring(std::size_t group, Hooks& hooks);
  Status queue_part(std::size_t part);
  Status tell_gradients(Hooks& hooks);

  GpuGroupOptions options_;
  std::unique_ptr<GpuRanks> gpus_;
  GroupInput input_;
  GroupStatistics statistics_;
  std::unique_ptr<ShardedExchange> exchange_;  // one of the two
  std::unique_ptr<GroupOptimizer> own_;
  std::vector<PassSegment> parts_;     // of backward
  std::vector<std::size_t> group_of_;  // by layer: its parameter group
  std::vector<bool> brought_;          // by parameter group: in this forward
  bool parameters_changed_ = true;
};

}  // namespace phub::nn::cuda

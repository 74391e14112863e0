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
// Passes are captured as in CudaExecutor; collectives are queued between graphs, never in one.
// All waits end at the timeout. After an error of a GPU the group is done for: what is queued is
// aborted, and every further call returns that error. Used by the thread that made it.
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

#include "worker/cuda/executor/cuda_executor.h"
#include "worker/cuda/executor/finite_check.h"
#include "worker/cuda/executor/own_optimizer.h"
#include "worker/cuda/group/collectives.h"
#include "worker/cuda/group/gpu_ranks.h"
#include "worker/cuda/group/sharded_exchange.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

struct GpuGroupOptions {
  std::chrono::milliseconds timeout{30'000};  // of a wait for the GPUs
  std::size_t parts = 16;                     // of a backward pass, about
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

// What dropout of GPU `rank` draws from, of Executor::set_noise's. The first one's is that itself.
std::uint64_t noise_of(std::uint64_t noise, std::size_t rank);

class GpuGroup : public Executor {
 public:
  // The executors are of the same graph and batch. REQUIRES: as many ranks as executors, at
  // least 1.
  static Result<std::unique_ptr<GpuGroup>> create(std::vector<GpuRank> gpus,
                                                  std::unique_ptr<Collectives> collectives,
                                                  const GpuGroupOptions& options);
  ~GpuGroup() override;  // waits for the devices, until the timeout

  const std::vector<ParameterSpec>& parameters() const override { return first().parameters(); }
  Result<std::vector<nn::Buffer>> read_buffers() override;

  Status bind(std::span<const Binding> bindings) override;
  bool binds(DataType) const override { return true; }
  Status bind_typed(DataType type, std::span<const TypedBinding> bindings) override;
  Result<ExportedMemoryPointer> export_gradients(std::size_t /*bytes*/) override {
    return Status(Code::kFailedPrecondition,
                  "several GPUs (train.devices) push their slices from the host's memory");
  }
  // Each GPU keeps all parameters and updates them alike, from gradients that are summed by an
  // all-reduce.
  Status keep_parameters(std::span<const std::vector<float>> initial) override;
  Status update(const OwnRule& rule) override;

  std::uint32_t batch() const override { return first().batch() * static_cast<std::uint32_t>(n()); }
  std::size_t input_elements() const override { return first().input_elements() * n(); }
  std::size_t output_elements() const override { return first().output_elements() * n(); }

  void set_noise(std::uint64_t noise) override;
  Status load(std::span<const float> images, std::span<const Label> labels) override;
  bool loads_bytes() const override { return true; }
  Status load_bytes(const ByteImages& images, std::span<const Label> labels) override;
  Status forward(Mode mode, Hooks& hooks) override;
  Status read_output(std::span<float> host) override;
  Status start_loss(const LossOptions& options) override;
  Status backward(Hooks& hooks) override;

 private:
  GpuGroup(std::vector<GpuRank> gpus, std::unique_ptr<Collectives> collectives,
           const GpuGroupOptions& options)
      : options_(options), gpus_(std::move(gpus)), collectives_(std::move(collectives)) {}

  std::size_t n() const { return gpus_.size(); }
  CudaExecutor& first() const { return *gpus_.front().executor; }
  // Those of one GPU's images.
  std::span<const Label> labels_of(std::size_t rank, std::span<const Label> labels) const;
  static std::size_t slot_of(std::size_t part) { return CudaExecutor::kLossSlot + 1 + part; }

  Status make_events();
  void cut(bool exchanges);
  // Calls `work` for each GPU. An error, of this or of what it is given, ends the group.
  template <typename Work>
  Status each(const Work& work) {
    return failed_.ok() ? ended_by(on_each(gpus_, work)) : failed_;
  }
  Status ended_by(const Status& status);

  using TimePoint = std::chrono::steady_clock::time_point;

  Status share_statistics();
  Status bring(std::size_t group, Hooks& hooks);
  Status run_segment(Pass pass, std::size_t segment, Hooks& hooks);
  Status queue_part(std::size_t part);
  Status tell_gradients(Hooks& hooks);
  // Until every GPU has told the slot: whether all was finite.
  Result<bool> wait_told(std::size_t slot);
  // Until no GPU has anything left to do.
  Status settle();
  // After a failure: whether they all come to rest before the timeout.
  bool come_to_rest();
  TimePoint now() { return gpus_.front().executor->runtime().now(); }
  // By rank, at once. Errors end the group: of a GPU, of a collective, or as it takes too long.
  Result<std::vector<bool>> find_busy(TimePoint start);

  GpuGroupOptions options_;
  std::vector<GpuRank> gpus_;
  std::unique_ptr<Collectives> collectives_;
  Status failed_;  // the first error of a GPU

  std::unique_ptr<ShardedExchange> exchange_;  // one of the two
  std::vector<std::unique_ptr<OwnOptimizer>> own_;
  std::vector<std::unique_ptr<FiniteCheck>> own_checks_;
  DataType own_type_ = DataType::kFloat32;  // of own_'s gradients
  std::vector<Segment> parts_;              // of backward
  std::vector<std::size_t> group_of_;       // by layer: its parameter group
  std::vector<bool> brought_;               // by parameter group: in this forward
  struct Events {
    EventPointer upload, part, downloads;
  };
  std::vector<Events> events_;  // by rank

  bool parameters_changed_ = true;
  std::vector<nn::Buffer> statistics_;  // the first GPU's, while the host has them
  bool statistics_differ_ = false;      // they are not everyone's
};

}  // namespace phub::nn::cuda

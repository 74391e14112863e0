// Between the exchange's arrays and several GPUs: each brings and takes a slice of them, and the
// GPUs gather and add up among themselves.
//
// Owned by the group of GPUs; its thread. The exchange's arrays and the GPUs outlive it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/cuda/executor/finite_check.h"
#include "worker/cuda/executor/host_arrays.h"
#include "worker/cuda/executor/plain_parameters.h"
#include "worker/cuda/group/collectives.h"
#include "worker/cuda/group/gpu_ranks.h"
#include "worker/cuda/group/shard_layout.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

struct ShardedExchangeOptions {
  // Layers that come and leave together.
  std::vector<std::vector<std::size_t>> parameter_groups{}, gradient_groups{};
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

class ShardedExchange {
 public:
  // Sums between GPUs are of the bindings' type. REQUIRES: check_bindings.
  static Result<std::unique_ptr<ShardedExchange>> create(const std::vector<GpuRank>& gpus,
                                                         Collectives& collectives,
                                                         const TypedBindings& bindings,
                                                         const ShardedExchangeOptions& options);

  // kUpload of every GPU: its slice of the parameter group comes, all are gathered and go to where
  // cuDNN reads them.
  Status upload(std::size_t group);
  // kDownload of every GPU: the gradient group is summed, each GPU looks at its slice of the sums
  // and sends it to the exchange's arrays. Numbers that are not finite, before or after, mark the
  // status' slot of a GPU, which is told behind that.
  Status download(std::size_t group, std::size_t slot);
  // On the host, after every GPU has told: the gradients are in the exchange's arrays.
  void arrived(std::size_t group);

  const ShardLayout& parameters() const { return parameters_; }
  const ShardLayout& gradients() const { return gradients_; }

 private:
  ShardedExchange(const std::vector<GpuRank>& gpus, Collectives& collectives, DataType type,
                  ShardLayout parameters, ShardLayout gradients)
      : gpus_(gpus),
        collectives_(collectives),
        type_(type),
        parameters_(std::move(parameters)),
        gradients_(std::move(gradients)) {}

  Status prepare(std::span<const TypedBinding> bindings,
                 const std::function<void(std::string_view)>& note);
  Status prepare_rank(std::size_t rank, DevicePasses& passes);
  std::vector<void*> regions(const ShardLayout& layout, std::size_t group, bool gradients) const;
  std::byte* host_piece(std::size_t array, const ShardPiece& piece) const;
  void* device_piece(const Block& array, const ShardPiece& piece) const;

  const std::vector<GpuRank>& gpus_;
  Collectives& collectives_;
  DataType type_;
  ShardLayout parameters_, gradients_;
  std::unique_ptr<HostArrays> host_;  // of each key its parameter, then its gradient
  std::vector<std::unique_ptr<PlainParameters>> plain_;  // by rank
  std::vector<std::unique_ptr<FiniteCheck>> checks_;     // by rank: of its slice of each group
};

}  // namespace phub::nn::cuda

// Parameters and gradients on the device as the exchange has them, key by key, and the kernels'
// arguments that bring them to and from what cuDNN reads.
//
// Owned by the executor; immutable after create but for what the arrays hold.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "kernels/cuda/training_arguments.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

struct PlainTypes {
  DataType parameter = DataType::kFloat32;
  DataType gradient = DataType::kFloat32;
  std::vector<std::byte*> gradients = {};  // by key, where somebody has memory for them; else empty
};

// Where keys lie in the two arrays, and how long those are, in bytes.
struct PlainPlaces {
  std::vector<std::size_t> parameters{}, gradients{};  // by key
  std::size_t parameter_bytes = 0, gradient_bytes = 0;
};

class PlainParameters {
 public:
  // Keys one behind the other.
  static Result<std::unique_ptr<PlainParameters>> create(Runtime& runtime,
                                                         const LoweredRunner& runner,
                                                         const PlainTypes& types);
  static Result<std::unique_ptr<PlainParameters>> create(Runtime& runtime,
                                                         const LoweredRunner& runner,
                                                         const PlainTypes& types,
                                                         PlainPlaces places);

  std::size_t keys() const { return elements_.size(); }
  std::int64_t elements(std::size_t key) const { return elements_[key]; }
  void* parameter(std::size_t key) const;
  void* gradient(std::size_t key) const;
  // Both as wholes: what is between the keys is 0 unless somebody wrote to it.
  const Block& parameter_array() const { return *parameters_; }
  const Block& gradient_array() const { return *gradients_; }

  // Of the keys in the range. `not_finite` is the device's.
  kernels::cuda::LoadParameters load(const KeyRange& keys) const;
  kernels::cuda::PublishGradients publish(const KeyRange& keys, int* not_finite) const;
  // A table of chunks over the plain elements of all keys.
  const kernels::cuda::TensorChunk* chunks() const { return publish_.chunks(); }
  std::int64_t chunk_count() const { return publish_.count(); }

 private:
  // Tensors and chunks of one direction, on the device.
  struct Table {
    BlockPointer tensors_block, chunks_block;
    std::vector<std::int64_t> first_chunk;  // by key, and the end

    const kernels::cuda::ParameterTensor* tensors() const;
    const kernels::cuda::TensorChunk* chunks() const;
    std::int64_t count() const { return first_chunk.back(); }
  };

  PlainParameters(const LoweredRunner& runner, const PlainTypes& types, PlainPlaces places)
      : runner_(runner), types_(types), places_(std::move(places)) {}

  Status allocate(Runtime& runtime);
  Status fill(Runtime& runtime, bool loads, Table& table) const;

  const LoweredRunner& runner_;
  PlainTypes types_;
  std::vector<std::int64_t> elements_;  // by key
  PlainPlaces places_;
  BlockPointer parameters_, gradients_;
  Table load_, publish_;
};

// Copies host values to the device and waits.
Status copy_now(Runtime& runtime, void* to, const void* from, std::size_t bytes);

// The values in memory of the device.
template <typename T>
Result<BlockPointer> table_on_device(Runtime& runtime, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  PHUB_ASSIGN_OR_RETURN(auto block, runtime.device_memory(bytes, "tables of parameters"));
  PHUB_RETURN_IF_ERROR(copy_now(runtime, block->address, values.data(), bytes));
  return block;
}

}  // namespace phub::nn::cuda

#include "worker/cuda/executor/finite_check.h"

#include "worker/cuda/executor/plain_parameters.h"

namespace phub::nn::cuda {

Result<std::unique_ptr<FiniteCheck>> FiniteCheck::create(Runtime& runtime,
                                                         std::span<const Array> arrays,
                                                         DataType type) {
  std::unique_ptr<FiniteCheck> check(new FiniteCheck());
  std::vector<kernels::cuda::ParameterTensor> tensors;
  std::vector<kernels::cuda::TensorChunk> chunks;
  for (const Array& array : arrays) {
    const auto elements = static_cast<std::int64_t>(array.elements);
    check->first_chunk_.push_back(static_cast<std::int64_t>(chunks.size()));
    for (std::int64_t chunk = 0; chunk < kernels::cuda::chunks_of(elements); ++chunk) {
      chunks.push_back(
          {static_cast<std::uint32_t>(tensors.size()), static_cast<std::uint32_t>(chunk)});
    }
    tensors.push_back({.plain = array.address,
                       .padded = array.address,
                       .k = 1,
                       .c = elements,
                       .pixels = 1,
                       .padded_k = 1,
                       .padded_c = elements,
                       .plain_type = type,
                       .padded_type = type});
  }
  check->first_chunk_.push_back(static_cast<std::int64_t>(chunks.size()));
  PHUB_ASSIGN_OR_RETURN(check->tensors_, table_on_device(runtime, tensors));
  PHUB_ASSIGN_OR_RETURN(check->chunks_, table_on_device(runtime, chunks));
  return check;
}

kernels::cuda::PublishGradients FiniteCheck::of(std::size_t index, int* not_finite) const {
  const std::int64_t first = first_chunk_[index];
  return {.tensors = tensors_->as<kernels::cuda::ParameterTensor>(),
          .chunks = chunks_->as<kernels::cuda::TensorChunk>() + first,
          .chunk_count = first_chunk_[index + 1] - first,
          .scale = 1.0F,
          .not_finite = not_finite};
}

}  // namespace phub::nn::cuda

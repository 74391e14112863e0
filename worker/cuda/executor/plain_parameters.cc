#include "worker/cuda/executor/plain_parameters.h"

#include <cstring>
#include <utility>

#include "worker/cuda/lowered/memory_plan.h"

namespace phub::nn::cuda {
namespace {

PlainPlaces one_behind_the_other(const LoweredRunner& runner, const PlainTypes& types) {
  PlainPlaces places;
  for (const ParameterLayout& layout : runner.lowered().parameters) {
    const auto elements = static_cast<std::size_t>(layout.k * layout.c * layout.pixels);
    places.parameters.push_back(places.parameter_bytes);
    places.gradients.push_back(places.gradient_bytes);
    places.parameter_bytes += aligned_bytes(elements * size_of(types.parameter));
    places.gradient_bytes += aligned_bytes(elements * size_of(types.gradient));
  }
  return places;
}

}  // namespace

Status copy_now(Runtime& runtime, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return {};
  PHUB_ASSIGN_OR_RETURN(const auto pinned, runtime.pinned_memory(bytes, "a copy to the device"));
  std::memcpy(pinned->address, from, bytes);
  PHUB_RETURN_IF_ERROR(runtime.copy(to, pinned->address, bytes, Stream::kCompute));
  return runtime.synchronise(Stream::kCompute);
}

Result<std::unique_ptr<PlainParameters>> PlainParameters::create(Runtime& runtime,
                                                                 const LoweredRunner& runner,
                                                                 const PlainTypes& types) {
  return create(runtime, runner, types, one_behind_the_other(runner, types));
}

Result<std::unique_ptr<PlainParameters>> PlainParameters::create(Runtime& runtime,
                                                                 const LoweredRunner& runner,
                                                                 const PlainTypes& types,
                                                                 PlainPlaces places) {
  std::unique_ptr<PlainParameters> plain(new PlainParameters(runner, types, std::move(places)));
  PHUB_RETURN_IF_ERROR(plain->allocate(runtime));
  PHUB_RETURN_IF_ERROR(plain->fill(runtime, true, plain->load_));
  PHUB_RETURN_IF_ERROR(plain->fill(runtime, false, plain->publish_));
  return plain;
}

Status PlainParameters::allocate(Runtime& runtime) {
  for (const ParameterLayout& layout : runner_.lowered().parameters) {
    elements_.push_back(layout.k * layout.c * layout.pixels);
  }
  PHUB_ASSIGN_OR_RETURN(parameters_, runtime.device_memory(places_.parameter_bytes, "parameters"));
  if (!types_.gradients.empty()) return {};
  PHUB_ASSIGN_OR_RETURN(gradients_, runtime.device_memory(places_.gradient_bytes, "gradients"));
  return {};
}

// Loading counts a tensor's padded elements, publishing its plain ones.
Status PlainParameters::fill(Runtime& runtime, bool loads, Table& table) const {
  std::vector<kernels::cuda::ParameterTensor> tensors;
  std::vector<kernels::cuda::TensorChunk> chunks;
  for (std::size_t key = 0; key < elements_.size(); ++key) {
    const ParameterLayout& layout = runner_.lowered().parameters[key];
    const BufferId padded = loads ? layout.value : layout.gradient;
    tensors.push_back({.plain = loads ? parameter(key) : gradient(key),
                       .padded = runner_.address(padded),
                       .k = layout.k,
                       .c = layout.c,
                       .pixels = layout.pixels,
                       .padded_k = layout.padded_k,
                       .padded_c = layout.padded_c,
                       .plain_type = loads ? types_.parameter : types_.gradient,
                       .padded_type = runner_.type_of(padded)});
    table.first_chunk.push_back(static_cast<std::int64_t>(chunks.size()));
    const std::int64_t elements =
        loads ? layout.padded_k * layout.pixels * layout.padded_c : elements_[key];
    for (std::int64_t chunk = 0; chunk < kernels::cuda::chunks_of(elements); ++chunk) {
      chunks.push_back({static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(chunk)});
    }
  }
  table.first_chunk.push_back(static_cast<std::int64_t>(chunks.size()));
  PHUB_ASSIGN_OR_RETURN(table.tensors_block, table_on_device(runtime, tensors));
  PHUB_ASSIGN_OR_RETURN(table.chunks_block, table_on_device(runtime, chunks));
  return {};
}

const kernels::cuda::ParameterTensor* PlainParameters::Table::tensors() const {
  return tensors_block->as<kernels::cuda::ParameterTensor>();
}

const kernels::cuda::TensorChunk* PlainParameters::Table::chunks() const {
  return chunks_block->as<kernels::cuda::TensorChunk>();
}

void* PlainParameters::parameter(std::size_t key) const {
  return parameters_->as<std::byte>(places_.parameters[key]);
}

void* PlainParameters::gradient(std::size_t key) const {
  if (!types_.gradients.empty()) return types_.gradients[key];
  return gradients_->as<std::byte>(places_.gradients[key]);
}

kernels::cuda::LoadParameters PlainParameters::load(const KeyRange& keys) const {
  const std::int64_t first = load_.first_chunk[keys.first];
  return {.tensors = load_.tensors(),
          .chunks = load_.chunks() + first,
          .chunk_count = load_.first_chunk[keys.first + keys.count] - first};
}

kernels::cuda::PublishGradients PlainParameters::publish(const KeyRange& keys,
                                                         int* not_finite) const {
  const std::int64_t first = publish_.first_chunk[keys.first];
  return {.tensors = publish_.tensors(),
          .chunks = publish_.chunks() + first,
          .chunk_count = publish_.first_chunk[keys.first + keys.count] - first,
          .scale = 1.0F,
          .not_finite = not_finite};
}

}  // namespace phub::nn::cuda

#include "worker/cuda/group/sharded_exchange.h"

#include <string>
#include <utility>

namespace phub::nn::cuda {
namespace {

std::size_t parameter_of(std::size_t key) { return 2 * key; }
std::size_t gradient_of(std::size_t key) { return 2 * key + 1; }

std::vector<std::size_t> places_of(const ShardLayout& layout, std::size_t keys, DataType type) {
  std::vector<std::size_t> places;
  for (std::size_t key = 0; key < keys; ++key) places.push_back(layout.offset(key) * size_of(type));
  return places;
}

template <typename Work>
void for_keys(const ShardLayout& layout, std::size_t group, const std::vector<KeyRange>& layers,
              const Work& work) {
  for (const std::size_t layer : layout.regions()[group].layers) {
    const KeyRange& keys = layers[layer];
    for (std::size_t key = keys.first; key < keys.first + keys.count; ++key) work(key);
  }
}

}  // namespace

Result<std::unique_ptr<ShardedExchange>> ShardedExchange::create(
    const std::vector<GpuRank>& gpus, Collectives& collectives, const TypedBindings& bindings,
    const ShardedExchangeOptions& options) {
  const DevicePasses& first = *gpus.front().passes;
  std::vector<std::size_t> elements;
  for (const ParameterSpec& spec : first.parameters()) elements.push_back(spec.elements());
  std::unique_ptr<ShardedExchange> exchange(new ShardedExchange(
      gpus, collectives, bindings.type,
      ShardLayout(elements, first.schedule().layers, options.parameter_groups, gpus.size()),
      ShardLayout(elements, first.schedule().layers, options.gradient_groups, gpus.size())));
  PHUB_RETURN_IF_ERROR(exchange->prepare(bindings.keys, options.note));
  return exchange;
}

Status ShardedExchange::prepare(std::span<const TypedBinding> bindings,
                                const std::function<void(std::string_view)>& note) {
  std::vector<HostArray> arrays;
  for (const TypedBinding& binding : bindings) {
    // Pinned as it is; nothing writes to it.
    auto* parameter = const_cast<std::byte*>(binding.parameter.data());
    arrays.push_back({{parameter, binding.parameter.size()}, true});
    arrays.push_back({binding.gradient, false});
  }
  // Registered once, which is for all GPUs.
  Runtime& runtime = gpus_.front().passes->runtime();
  PHUB_RETURN_IF_ERROR(of_gpu(gpus_.front(), runtime.make_current()));
  PHUB_ASSIGN_OR_RETURN(host_, HostArrays::create(runtime, std::move(arrays), note));
  return on_each(
      gpus_, [&](std::size_t rank, DevicePasses& passes) { return prepare_rank(rank, passes); });
}

Status ShardedExchange::prepare_rank(std::size_t rank, DevicePasses& passes) {
  const std::size_t keys = passes.parameters().size();
  PHUB_ASSIGN_OR_RETURN(
      auto plain,
      PlainParameters::create(passes.runtime(), passes.runner(), {type_, type_},
                              {.parameters = places_of(parameters_, keys, type_),
                               .gradients = places_of(gradients_, keys, type_),
                               .parameter_bytes = parameters_.elements() * size_of(type_),
                               .gradient_bytes = gradients_.elements() * size_of(type_)}));
  std::vector<FiniteCheck::Array> slices;
  for (const ShardRegion& region : gradients_.regions()) {
    const std::size_t first = (region.first + rank * region.slice) * size_of(type_);
    slices.push_back({plain->gradient_array().as<std::byte>(first), region.slice});
  }
  PHUB_ASSIGN_OR_RETURN(auto check, FiniteCheck::create(passes.runtime(), slices, type_));
  plain_.push_back(std::move(plain));
  checks_.push_back(std::move(check));
  return {};
}

std::vector<void*> ShardedExchange::regions(const ShardLayout& layout, std::size_t group,
                                            bool gradients) const {
  const std::size_t first = layout.regions()[group].first * size_of(type_);
  std::vector<void*> all;
  for (const auto& plain : plain_) {
    const Block& array = gradients ? plain->gradient_array() : plain->parameter_array();
    all.push_back(array.as<std::byte>(first));
  }
  return all;
}

std::byte* ShardedExchange::host_piece(std::size_t array, const ShardPiece& piece) const {
  return static_cast<std::byte*>(host_->address(array)) + piece.first * size_of(type_);
}

void* ShardedExchange::device_piece(const Block& array, const ShardPiece& piece) const {
  return array.as<std::byte>(piece.at * size_of(type_));
}

Status ShardedExchange::upload(std::size_t group) {
  const ShardRegion& region = parameters_.regions()[group];
  const std::vector<KeyRange>& layers = gpus_.front().passes->schedule().layers;
  for_keys(parameters_, group, layers,
           [&](std::size_t key) { host_->to_device_side(parameter_of(key)); });
  const auto bring = [&](std::size_t rank, DevicePasses& passes) -> Status {
    for (const ShardPiece& piece : parameters_.pieces(group, rank)) {
      PHUB_RETURN_IF_ERROR(
          passes.runtime().copy(device_piece(plain_[rank]->parameter_array(), piece),
                                host_piece(parameter_of(piece.key), piece),
                                piece.count * size_of(type_), Stream::kUpload));
    }
    return {};
  };
  PHUB_RETURN_IF_ERROR(on_each(gpus_, bring));
  PHUB_RETURN_IF_ERROR(collectives_.all_gather(regions(parameters_, group, false),
                                               region.slice * size_of(type_), Stream::kUpload));
  return on_each(gpus_, [&](std::size_t rank, DevicePasses& passes) -> Status {
    for (const std::size_t layer : region.layers) {
      PHUB_RETURN_IF_ERROR(
          passes.runtime().launch(plain_[rank]->load(layers[layer]), Stream::kUpload));
    }
    return {};
  });
}

Status ShardedExchange::download(std::size_t group, std::size_t slot) {
  const ShardRegion& region = gradients_.regions()[group];
  const auto publish = [&](std::size_t rank, DevicePasses& passes) -> Status {
    int* not_finite = passes.status().not_finite(slot);
    for (const std::size_t layer : region.layers) {
      PHUB_RETURN_IF_ERROR(passes.runtime().launch(
          plain_[rank]->publish(passes.schedule().layers[layer], not_finite), Stream::kDownload));
    }
    return {};
  };
  PHUB_RETURN_IF_ERROR(on_each(gpus_, publish));
  PHUB_RETURN_IF_ERROR(collectives_.reduce_scatter(regions(gradients_, group, true), region.slice,
                                                   type_, Stream::kDownload));
  return on_each(gpus_, [&](std::size_t rank, DevicePasses& passes) -> Status {
    Runtime& runtime = passes.runtime();
    PHUB_RETURN_IF_ERROR(runtime.launch(checks_[rank]->of(group, passes.status().not_finite(slot)),
                                        Stream::kDownload));
    for (const ShardPiece& piece : gradients_.pieces(group, rank)) {
      PHUB_RETURN_IF_ERROR(runtime.copy(host_piece(gradient_of(piece.key), piece),
                                        device_piece(plain_[rank]->gradient_array(), piece),
                                        piece.count * size_of(type_), Stream::kDownload));
    }
    return passes.status().tell(slot, Stream::kDownload);
  });
}

void ShardedExchange::arrived(std::size_t group) {
  for_keys(gradients_, group, gpus_.front().passes->schedule().layers,
           [&](std::size_t key) { host_->from_device_side(gradient_of(key)); });
}

}  // namespace phub::nn::cuda

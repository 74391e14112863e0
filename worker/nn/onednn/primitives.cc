#include "worker/nn/onednn/primitives.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "kernels/reduce.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

struct Typed {
  const Memory& memory;
  DataType type;
  std::size_t elements;
};

void write(std::span<const float> host, const Typed& to) {
  PHUB_CHECK(host.size() == to.elements, "host and tensor have the same elements");
  kernels::convert(bytes(to.memory), to.type, std::as_bytes(host).data(), DataType::kFloat32,
                   host.size());
}

void read(const Typed& from, std::span<float> host) {
  PHUB_CHECK(host.size() == from.elements, "host and tensor have the same elements");
  kernels::convert(std::as_writable_bytes(host).data(), DataType::kFloat32, bytes(from.memory),
                   from.type, host.size());
}

bool aligned(const float* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kInPlaceAlignment == 0;
}

}  // namespace

Memory Scratchpad::view(const Memory::desc& desc, const dnnl::engine& engine) {
  if (!storage_ || storage_.get_desc().get_size() < desc.get_size()) {
    storage_ = Memory(desc, engine);
    for (Memory& memory : views_) memory.set_data_handle(storage_.get_data_handle());
  }
  views_.emplace_back(desc, engine, storage_.get_data_handle());
  return views_.back();
}

Memory ImageMemory::take(const Memory::desc& desc, const dnnl::engine& engine) {
  constexpr std::size_t kLeastBlock = std::size_t{32} << 20U;
  const std::size_t bytes =
      (desc.get_size() + kInPlaceAlignment - 1) / kInPlaceAlignment * kInPlaceAlignment;
  if (blocks_.empty() || blocks_.back()->size() - used_ < bytes) {
    auto block = Mapping::anonymous(std::max(bytes, kLeastBlock));
    if (!block) throw dnnl::error(dnnl_out_of_memory, "no memory for images");
    blocks_.push_back(std::move(*block));
    used_ = 0;
  }
  std::byte* const data = blocks_.back()->data() + used_;
  used_ += bytes;
  taken_ += bytes;
  return Memory(desc, engine, data);
}

Memory::data_type dnnl_type(DataType type) {
  PHUB_CHECK(type != DataType::kFloat16, "make_onednn_backend refuses fp16");
  return type == DataType::kFloat32 ? Memory::data_type::f32 : Memory::data_type::bf16;
}

Memory::desc image_desc(std::uint32_t batch, const Shape& shape, DataType type) {
  return {{batch, shape.channels, shape.height, shape.width},
          dnnl_type(type),
          Memory::format_tag::nhwc};
}

OnednnTensor::OnednnTensor(const TensorOptions& options, OnednnContext& context)
    : options_(options),
      type_(context.type),
      value_type_(context.type),
      value_(context.images.take(desc(), context.engine)) {
  if (options.gradient) gradient_ = context.images.take(desc(), context.engine);
}

OnednnTensor::OnednnTensor(const OnednnTensor& tensor, OnednnContext& context)
    : options_(tensor.options_),
      type_(tensor.type_),
      value_type_(tensor.value_type_),
      value_(tensor.value_),
      gradient_(context.images.take(tensor.desc(), context.engine)) {}

void OnednnTensor::widen_output(OnednnContext& context) {
  if (!options_.output || value_type_ == DataType::kFloat32) return;
  value_type_ = DataType::kFloat32;
  value_ =
      context.images.take(image_desc(options_.batch, options_.shape, value_type_), context.engine);
}

void OnednnTensor::write_value(std::span<const float> host) {
  write(host, {value_, value_type_, elements()});
}

void OnednnTensor::read_value(std::span<float> host) const {
  read({value_, value_type_, elements()}, host);
}

void OnednnTensor::write_gradient(std::span<const float> host) {
  PHUB_CHECK(has_gradient(), "the tensor has a gradient");
  write(host, {gradient_, type_, elements()});
}

void OnednnTensor::read_gradient(std::span<float> host) const {
  PHUB_CHECK(has_gradient(), "the tensor has a gradient");
  read({gradient_, type_, elements()}, host);
}

PrimitiveCall::PrimitiveCall(const dnnl::primitive& primitive, const Arguments& arguments)
    : primitive_(primitive) {
  for (const auto& [index, memory] : arguments) {
    if (!memory) continue;  // an output that nobody wants
    arguments_.push_back({index, memory.get()});
    memories_.push_back(memory);
  }
}

Status PrimitiveCall::run(const OnednnContext& context) const {
  // The C call: the C++ one copies its arguments and throws.
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), context.stream.get(),
                             static_cast<int>(arguments_.size()), arguments_.data());
  if (status == dnnl_success) [[likely]]
    return {};
  return {Code::kInternal, "oneDNN could not run a primitive (dnnl_status_t " +
                               std::to_string(static_cast<int>(status)) + ")"};
}

PrimitiveCall reorder(const Memory& from, const Memory& to) {
  return PrimitiveCall(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

BoundArray::BoundArray(Way way, const Memory::desc& plain, const Memory::desc& wanted,
                       const OnednnContext& context)
    : same_layout_(plain == wanted),
      plain_(plain, context.engine, DNNL_MEMORY_NONE),
      memory_(wanted, context.engine),
      reorder_(way == Way::kIn ? reorder(plain_, memory_) : reorder(memory_, plain_)) {}

void BoundArray::bind(const float* array) {
  if (leader_ != nullptr) {
    copies_ = false;
    memory_.set_data_handle(leader_->memory_.get_data_handle());
    return;
  }
  // oneDNN takes a mutable pointer also for what it only reads.
  float* const address = const_cast<float*>(array);
  copies_ = !same_layout_ || !aligned(address);
  plain_.set_data_handle(address);
  if (!copies_) memory_.set_data_handle(address);
}

void BoundArray::follow(const BoundArray& leader) {
  leader_ = &leader;
  memory_.set_data_handle(leader.memory_.get_data_handle());  // which frees what it had
}

}  // namespace phub::nn::onednn

#include "worker/nn/onednn/primitives.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/base/check.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

void copy(std::span<const float> from, std::span<float> to) {
  PHUB_CHECK(from.size() == to.size(), "host and tensor have the same elements");
  std::copy(from.begin(), from.end(), to.begin());
}

std::span<float> floats(const Memory& memory, std::size_t elements) {
  return {static_cast<float*>(memory.get_data_handle()), elements};
}

bool aligned(const float* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kInPlaceAlignment == 0;
}

Memory without_storage(const Memory::desc& desc, const Context& context) {
  return Memory(desc, context.engine, DNNL_MEMORY_NONE);
}

Call reorder(const Memory& from, const Memory& to) {
  return Call(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
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

Memory::desc image_desc(std::uint32_t batch, const Shape& shape) {
  return {{batch, shape.channels, shape.height, shape.width},
          Memory::data_type::f32,
          Memory::format_tag::nhwc};
}

OnednnTensor::OnednnTensor(const TensorOptions& options, const Context& context)
    : options_(options), value_(image_desc(options.batch, options.shape), context.engine) {
  if (options.gradient) gradient_ = Memory(value_.get_desc(), context.engine);
}

OnednnTensor::OnednnTensor(const OnednnTensor& tensor, const Context& context)
    : options_(tensor.options_),
      value_(tensor.value_),
      gradient_(tensor.value_.get_desc(), context.engine) {}

void OnednnTensor::write_value(std::span<const float> host) {
  copy(host, floats(value_, elements()));
}

void OnednnTensor::read_value(std::span<float> host) const {
  copy(floats(value_, elements()), host);
}

void OnednnTensor::write_gradient(std::span<const float> host) {
  PHUB_CHECK(has_gradient(), "the tensor has a gradient");
  copy(host, floats(gradient_, elements()));
}

void OnednnTensor::read_gradient(std::span<float> host) const {
  PHUB_CHECK(has_gradient(), "the tensor has a gradient");
  copy(floats(gradient_, elements()), host);
}

Call::Call(const dnnl::primitive& primitive, const Arguments& arguments) : primitive_(primitive) {
  for (const auto& [index, memory] : arguments) {
    if (!memory) continue;  // an output that nobody wants
    arguments_.push_back({index, memory.get()});
    memories_.push_back(memory);
  }
}

Status Call::run(const Context& context) const {
  // The C call: the C++ one copies its arguments and throws.
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), context.stream.get(),
                             static_cast<int>(arguments_.size()), arguments_.data());
  if (status == dnnl_success) [[likely]]
    return {};
  return {Code::kInternal, "oneDNN could not run a primitive (dnnl_status_t " +
                               std::to_string(static_cast<int>(status)) + ")"};
}

ParameterSource::ParameterSource(const Memory::desc& plain, const Memory::desc& wanted,
                                 const Context& context)
    : same_layout_(plain == wanted),
      plain_(without_storage(plain, context)),
      memory_(wanted, context.engine),
      reorder_(reorder(plain_, memory_)) {}

void ParameterSource::bind(std::span<const float> parameter) {
  // oneDNN takes a mutable pointer also for what it only reads.
  float* address = const_cast<float*>(parameter.data());
  copy_ = !same_layout_ || !aligned(address);
  plain_.set_data_handle(address);
  if (!copy_) memory_.set_data_handle(address);
}

GradientSink::GradientSink(const Memory::desc& plain, const Memory::desc& wanted,
                           const Context& context)
    : same_layout_(plain == wanted),
      plain_(without_storage(plain, context)),
      memory_(wanted, context.engine),
      reorder_(reorder(memory_, plain_)) {}

void GradientSink::bind(std::span<float> gradient) {
  copy_ = !same_layout_ || !aligned(gradient.data());
  plain_.set_data_handle(gradient.data());
  if (!copy_) memory_.set_data_handle(gradient.data());
}

}  // namespace phub::nn::onednn

#include "worker/nn/onednn/library_way.h"

#include <algorithm>

#include "common/base/check.h"

namespace phub::nn::onednn {

using Memory = dnnl::memory;

bool same_bytes(const Memory::desc& nhwc, const Memory::desc& other) {
  if (nhwc == other) return true;
  const auto& layout = other.data.format_desc.blocking;
  const auto& plain = nhwc.data.format_desc.blocking;
  const bool one_block = other.data.format_kind == dnnl_blocked && layout.inner_nblks == 1 &&
                         layout.inner_idxs[0] == 1 && layout.inner_blks[0] == nhwc.data.dims[1];
  if (!one_block || nhwc.get_size() != other.get_size()) return false;
  for (const int axis : {0, 2, 3}) {
    if (layout.strides[axis] != plain.strides[axis]) return false;
  }
  return true;
}

bool LibraryWay::Arguments::has_blocked_images() const {
  const auto is_blocked = [](const Image& image) {
    return image.memory.get_desc() != image.wanted;
  };
  return std::any_of(read.begin(), read.end(), is_blocked) || (written && is_blocked(*written));
}

bool LibraryWay::Arguments::moves_images() const {
  const auto is_moved = [](const Image& image) {
    return !same_bytes(image.memory.get_desc(), image.wanted);
  };
  return std::any_of(read.begin(), read.end(), is_moved) || (written && is_moved(*written));
}

std::vector<Memory::desc> LibraryWay::Arguments::layouts() const {
  std::vector<Memory::desc> all;
  for (const Image& image : read) all.push_back(image.wanted);
  if (written) all.push_back(written->wanted);
  for (const Parameter& parameter : sources) all.push_back(parameter.wanted);
  for (const Parameter& parameter : sinks) all.push_back(parameter.wanted);
  return all;
}

LibraryWay::LibraryWay(const dnnl::primitive& primitive, const Arguments& arguments,
                       OpScratch& room, const OnednnContext& context) {
  PHUB_CHECK(arguments.read.size() + (arguments.written ? 1U : 0U) <= room.copies.size(),
             "there is room for a copy of each image");
  PrimitiveCall::Arguments all = {
      {DNNL_ARG_SCRATCHPAD, room.scratchpad.view(arguments.scratchpad, context.engine)}};
  for (const Parameter& parameter : arguments.sources) {
    sources_.emplace_back(BoundArray::Way::kIn, parameter.plain, parameter.wanted, context);
    all.emplace_back(parameter.argument, sources_.back().memory());
  }
  for (const Parameter& parameter : arguments.sinks) {
    sinks_.emplace_back(BoundArray::Way::kOut, parameter.plain, parameter.wanted, context);
    all.emplace_back(parameter.argument, sinks_.back().memory());
  }
  std::size_t copy = 0;
  for (const Image& image : arguments.read) {
    const Memory memory = wanted(image, room.copies[copy++], context);
    if (memory.get_data_handle() != image.memory.get_data_handle()) {
      calls_.push_back(reorder(image.memory, memory));
    }
    all.emplace_back(image.argument, memory);
  }
  std::optional<PrimitiveCall> back;
  if (arguments.written) {
    const Image& image = *arguments.written;
    const Memory memory = wanted(image, room.copies[copy], context);
    if (memory.get_data_handle() != image.memory.get_data_handle()) {
      back = reorder(memory, image.memory);
    }
    all.emplace_back(image.argument, memory);
  }
  calls_.emplace_back(primitive, all);
  if (back) calls_.push_back(*back);
}

Memory LibraryWay::wanted(const Image& image, Scratchpad& copy, const OnednnContext& context) {
  if (!same_bytes(image.memory.get_desc(), image.wanted)) {
    return copy.view(image.wanted, context.engine);
  }
  return Memory(image.wanted, context.engine, image.memory.get_data_handle());
}

void LibraryWay::bind(std::span<const Binding> bindings) {
  for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i].bind(bindings[i].parameter.data());
  for (std::size_t i = 0; i < sinks_.size(); ++i) sinks_[i].bind(bindings[i].gradient.data());
}

Status LibraryWay::run(const OnednnContext& context) {
  for (const BoundArray& source : sources_) PHUB_RETURN_IF_ERROR(source.copy(context));
  for (const PrimitiveCall& call : calls_) PHUB_RETURN_IF_ERROR(call.run(context));
  for (const BoundArray& sink : sinks_) PHUB_RETURN_IF_ERROR(sink.copy(context));
  return {};
}

}  // namespace phub::nn::onednn

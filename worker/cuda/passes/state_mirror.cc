#include "worker/cuda/passes/state_mirror.h"

#include <algorithm>
#include <span>

namespace phub::nn::cuda {

Result<std::unique_ptr<StateMirror>> StateMirror::create(Runtime& runtime,
                                                         const LoweredRunner& runner) {
  std::unique_ptr<StateMirror> mirror(new StateMirror(runtime, runner));
  std::size_t bytes = 0;
  for (const StateLayout& state : mirror->states_) {
    mirror->offsets_.push_back(bytes);
    bytes += static_cast<std::size_t>(state.channels) * sizeof(float);
  }
  if (bytes == 0) return mirror;
  PHUB_ASSIGN_OR_RETURN(mirror->pinned_, runtime.pinned_memory(bytes, "running statistics"));
  for (std::size_t i = 0; i < mirror->states_.size(); ++i) {
    auto* values = mirror->pinned_->as<float>(mirror->offsets_[i]);
    std::fill_n(values, mirror->states_[i].channels, mirror->states_[i].initial);
  }
  PHUB_RETURN_IF_ERROR(mirror->copy_all(true));
  PHUB_RETURN_IF_ERROR(runtime.synchronise(Stream::kCompute));
  return mirror;
}

Status StateMirror::copy_all(bool to_device) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    void* host = pinned_->as<float>(offsets_[i]);
    void* device = runner_.address(states_[i].buffer);
    const std::size_t bytes = static_cast<std::size_t>(states_[i].channels) * sizeof(float);
    PHUB_RETURN_IF_ERROR(runtime_.copy(to_device ? device : host, to_device ? host : device, bytes,
                                       Stream::kCompute));
  }
  return {};
}

Result<std::vector<StateBuffer>> StateMirror::read() {
  PHUB_RETURN_IF_ERROR(copy_all(false));
  PHUB_RETURN_IF_ERROR(runtime_.synchronise(Stream::kCompute));
  std::vector<StateBuffer> buffers;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    buffers.push_back({states_[i].name, std::span(pinned_->as<float>(offsets_[i]),
                                                  static_cast<std::size_t>(states_[i].channels))});
  }
  is_read_ = true;
  return buffers;
}

Status StateMirror::write_back() {
  if (!is_read_) return {};
  is_read_ = false;
  return copy_all(true);
}

}  // namespace phub::nn::cuda

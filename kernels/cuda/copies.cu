// What moves or masks activations: Concat's copies, ApplySubsample, ApplyDropout.
#include "common/base/splitmix.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/network_kernels.h"

namespace phub::kernels::cuda {
namespace {

template <typename T>
__global__ void copy_channels(CopyChannels a) {
  const auto* source = static_cast<const T*>(a.source);
  auto* target = static_cast<T*>(a.target);
  const std::int64_t cleared = a.clear_to - a.to;
  const std::int64_t width = cleared > a.channels ? cleared : a.channels;
  for (std::int64_t i = first_index(); i < a.rows * width; i += index_stride()) {
    const std::int64_t row = i / width, c = i % width;
    target[row * a.target_channels + a.to + c] =
        c < a.channels ? source[row * a.source_channels + a.from + c] : from_float<T>(0.0F);
  }
}

// The same where every offset and width is a multiple of 8.
template <typename T>
__global__ void copy_channels_by_eight(CopyChannels a) {
  const auto* source = static_cast<const Eight<T>*>(a.source);
  auto* target = static_cast<Eight<T>*>(a.target);
  const std::int64_t width = a.channels / 8;
  for (std::int64_t i = first_index(); i < a.rows * width; i += index_stride()) {
    const std::int64_t row = i / width, c = i % width;
    target[row * (a.target_channels / 8) + a.to / 8 + c] =
        source[row * (a.source_channels / 8) + a.from / 8 + c];
  }
}

template <typename T>
__global__ void subsample(ApplySubsample a) {
  const auto* source = static_cast<const T*>(a.source);
  auto* target = static_cast<T*>(a.target);
  const std::int64_t elements = a.images * a.small_height * a.small_width * a.small_channels;
  for (std::int64_t i = first_index(); i < elements; i += index_stride()) {
    const std::int64_t c = i % a.small_channels - a.to;
    const std::int64_t pixel = i / a.small_channels;
    const std::int64_t column = pixel % a.small_width * a.stride;
    const std::int64_t row = pixel / a.small_width % a.small_height * a.stride;
    const std::int64_t image = pixel / a.small_width / a.small_height;
    const bool used = c >= 0 && c < a.used_channels;
    target[i] = used ? source[((image * a.height + row) * a.width + column) * a.channels + c]
                     : from_float<T>(0.0F);
  }
}

template <typename T>
__global__ void subsample_backward(ApplySubsample a) {
  const auto* source = static_cast<const T*>(a.source);
  auto* target = static_cast<T*>(a.target);
  const std::int64_t elements = a.images * a.height * a.width * a.channels;
  for (std::int64_t i = first_index(); i < elements; i += index_stride()) {
    const std::int64_t c = i % a.channels;
    const std::int64_t pixel = i / a.channels;
    const std::int64_t column = pixel % a.width;
    const std::int64_t row = pixel / a.width % a.height;
    const std::int64_t image = pixel / a.width / a.height;
    const bool used = row % a.stride == 0 && column % a.stride == 0 && c < a.used_channels;
    const std::int64_t from =
        ((image * a.small_height + row / a.stride) * a.small_width + column / a.stride) *
        a.small_channels;
    target[i] = used ? source[from + a.to + c] : from_float<T>(0.0F);
  }
}

template <typename T>
__global__ void dropout(ApplyDropout a) {
  const auto* source = static_cast<const T*>(a.source);
  auto* target = static_cast<T*>(a.target);
  const std::uint64_t key = *a.key;
  for (std::int64_t i = first_index(); i < a.rows * a.channels; i += index_stride()) {
    const std::int64_t c = i % a.channels;
    const std::int64_t index = i / a.channels * a.used_channels + c;
    const bool kept = c < a.used_channels &&
                      (splitmix64(key, static_cast<std::uint64_t>(index)) >> 32U) >= a.threshold;
    target[i] = from_float<T>(kept ? to_float(source[i]) * a.scale : 0.0F);
  }
}

bool by_eight(const CopyChannels& a) {
  return a.source_channels % 8 == 0 && a.target_channels % 8 == 0 && a.channels % 8 == 0 &&
         a.from % 8 == 0 && a.to % 8 == 0 && a.clear_to <= a.to + a.channels;
}

}  // namespace

cudaError_t run(const CopyChannels& a, cudaStream_t stream) {
  return with_type(a.type, [&](auto element) {
    using T = decltype(element);
    if (by_eight(a)) {
      copy_channels_by_eight<T><<<blocks_for(a.rows * a.channels / 8), kThreads, 0, stream>>>(a);
    } else {
      copy_channels<T><<<blocks_for(a.rows * a.target_channels), kThreads, 0, stream>>>(a);
    }
  });
}

cudaError_t run_forward(const ApplySubsample& a, cudaStream_t stream) {
  const std::int64_t elements = a.images * a.small_height * a.small_width * a.small_channels;
  return with_type(a.type, [&](auto element) {
    subsample<decltype(element)><<<blocks_for(elements), kThreads, 0, stream>>>(a);
  });
}

cudaError_t run_backward(const ApplySubsample& a, cudaStream_t stream) {
  const std::int64_t elements = a.images * a.height * a.width * a.channels;
  return with_type(a.type, [&](auto element) {
    subsample_backward<decltype(element)><<<blocks_for(elements), kThreads, 0, stream>>>(a);
  });
}

cudaError_t run(const ApplyDropout& a, cudaStream_t stream) {
  return with_type(a.type, [&](auto element) {
    dropout<decltype(element)><<<blocks_for(a.rows * a.channels), kThreads, 0, stream>>>(a);
  });
}

}  // namespace phub::kernels::cuda

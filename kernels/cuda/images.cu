#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

// One thread for each pixel: with 4 padded channels of 16 bits it writes 8 bytes.
template <typename T>
__global__ void prepare_images(PrepareImages a) {
  auto* target = static_cast<T*>(a.target);
  const std::int64_t pixels = a.images * a.height * a.width;
  for (std::int64_t i = first_index(); i < pixels; i += index_stride()) {
    const std::int64_t column = i % a.width;
    const std::int64_t row = i / a.width % a.height;
    const std::int64_t image = i / a.width / a.height;
    const bool flip = a.flip != nullptr && a.flip[image] != 0;
    const std::int64_t y = row + (a.top != nullptr ? a.top[image] : 0);
    const std::int64_t x =
        (flip ? a.width - 1 - column : column) + (a.left != nullptr ? a.left[image] : 0);
    const bool inside = y >= 0 && y < a.source_height && x >= 0 && x < a.source_width;
    const std::int64_t from = ((image * a.source_height + y) * a.source_width + x) * a.channels;
    for (std::int64_t c = 0; c < a.padded_channels; ++c) {
      float value = 0.0F;
      if (c < a.channels) {
        if (inside) {
          value = a.bytes
                      ? static_cast<float>(static_cast<const std::uint8_t*>(a.source)[from + c]) /
                            255.0F
                      : static_cast<const float*>(a.source)[from + c];
        }
        value = (value - a.mean[c]) / a.deviation[c];
      }
      target[i * a.padded_channels + c] = from_float<T>(value);
    }
  }
}

}  // namespace

cudaError_t run(const PrepareImages& a, cudaStream_t stream) {
  constexpr std::int64_t kChannelsMax = 4;  // of mean and deviation
  if (a.channels > kChannelsMax) return cudaErrorInvalidValue;
  return with_type(a.type, [&](auto element) {
    prepare_images<decltype(element)>
        <<<blocks_for(a.images * a.height * a.width), kThreads, 0, stream>>>(a);
  });
}

}  // namespace phub::kernels::cuda

// What a thread of parameters.cu does: eight neighbours of a chunk, so that memory is accessed 16
// bytes at a time where the layout allows.
//
// Compiled for the device by nvcc and for the host by others: `Memory` is how elements of a type
// that is known at run time are accessed, so that the arithmetic of indices is tested where there
// is no GPU (kernels_reference_test).
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/training_arguments.h"

namespace phub::kernels::cuda {

static_assert(kChunkElements % kEight == 0, "no eight lies in two chunks");

// For accesses of 16 bytes; indices are multiples of eight.
PHUB_DEVICE inline bool is_aligned(const void* array) {
  return reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
}

// Padded elements [i, i + 8) of those of LoadParameters. REQUIRES: i is a multiple of eight below
// their number; `padded` is aligned where padded_c is a multiple of eight.
template <typename Memory>
PHUB_DEVICE void load_eight(const ParameterTensor& t, std::int64_t i, const Memory& memory) {
  const std::int64_t elements = t.padded_k * t.pixels * t.padded_c;
  const bool whole = t.padded_c % kEight == 0;  // eight channels of one pixel
  std::int64_t c = i % t.padded_c;
  std::int64_t pixel = i / t.padded_c % t.pixels;
  std::int64_t k = i / t.padded_c / t.pixels;
  float values[kEight];
  const std::int64_t plain = (k * t.c + c) * t.pixels + pixel;
  if (whole && t.pixels == 1 && k < t.k && c + kEight <= t.c && plain % kEight == 0 &&
      is_aligned(t.plain)) {
    memory.load_eight(t.plain, t.plain_type, plain, values);
    memory.store_eight(t.padded, t.padded_type, i, values);
    return;
  }
  for (int j = 0; j < kEight; ++j) {
    const bool there = k < t.k && c < t.c;
    values[j] = there ? memory.load(t.plain, t.plain_type, (k * t.c + c) * t.pixels + pixel) : 0.0F;
    if (++c < t.padded_c) continue;
    c = 0;
    if (++pixel < t.pixels) continue;
    pixel = 0;
    ++k;
  }
  if (whole) {
    memory.store_eight(t.padded, t.padded_type, i, values);
    return;
  }
  for (int j = 0; j < kEight && i + j < elements; ++j) {
    memory.store(t.padded, t.padded_type, i + j, values[j]);
  }
}

// Plain elements [i, i + 8) of those of PublishGradients; whether all are finite as they are
// stored. REQUIRES: as load_eight, of the plain elements' number.
template <typename Memory>
PHUB_DEVICE bool publish_eight(const ParameterTensor& t, std::int64_t i, float scale,
                               const Memory& memory) {
  const std::int64_t elements = t.k * t.c * t.pixels;
  const bool whole = i + kEight <= elements && is_aligned(t.plain);
  float values[kEight];
  if (whole && t.pixels == 1 && t.padded_c == t.c && t.c % kEight == 0) {  // alike in both
    memory.load_eight(t.padded, t.padded_type, i, values);
  } else {
    std::int64_t pixel = i % t.pixels;
    std::int64_t c = i / t.pixels % t.c;
    std::int64_t k = i / t.pixels / t.c;
    for (int j = 0; j < kEight; ++j) {
      values[j] = 0.0F;
      if (i + j >= elements) continue;
      values[j] = memory.load(t.padded, t.padded_type, (k * t.pixels + pixel) * t.padded_c + c);
      if (++pixel < t.pixels) continue;
      pixel = 0;
      if (++c < t.c) continue;
      c = 0;
      ++k;
    }
  }
  bool finite = true;
  for (float& value : values) {
    value *= scale;
    finite = finite && memory.is_finite_as(t.plain_type, value);
  }
  if (whole) {
    memory.store_eight(t.plain, t.plain_type, i, values);
    return finite;
  }
  for (int j = 0; j < kEight && i + j < elements; ++j) {
    memory.store(t.plain, t.plain_type, i + j, values[j]);
  }
  return finite;
}

}  // namespace phub::kernels::cuda

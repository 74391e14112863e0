// Whether what a machine has written to a buffer is what it should be, by the bounds of
// step_bounds.h: as a whole, element by element, and slice by slice.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "tests/cuda/engines/naive_graph.h"
#include "tests/cuda/support/step_bounds.h"
#include "tests/cuda/support/step_comparison.h"
#include "worker/cuda/lowered/lowered.h"

namespace phub::testing::naive {

// So many sums of every so-manieth term.
inline constexpr Index kPartialSums = 1024;

// The squares of differences, and of what is expected. Of that what is finite: what is not equals
// itself, or is an outlier.
struct Differences {
  const float *found, *expected;
  Index elements;
  double *squares, *sizes;  // partial sums
  PHUB_HOST_DEVICE Index sums() const { return kPartialSums; }
  PHUB_HOST_DEVICE Index terms() const { return (elements + kPartialSums - 1) / kPartialSums; }
  PHUB_HOST_DEVICE void add(Index sum, Index term, double& first, double& second) const {
    const Index i = term * kPartialSums + sum;
    if (i >= elements) return;
    const double off = difference(found[i], expected[i]);
    first += off * off;
    if (std::isfinite(expected[i])) second += double{expected[i]} * double{expected[i]};
  }
  PHUB_HOST_DEVICE void finish(Index sum, double first, double second) const {
    squares[sum] = first;
    sizes[sum] = second;
  }
};

struct Outliers {
  const float *found, *expected;
  Index elements;
  double allowed, rounding;
  double* counts;
  PHUB_HOST_DEVICE Index sums() const { return kPartialSums; }
  PHUB_HOST_DEVICE Index terms() const { return (elements + kPartialSums - 1) / kPartialSums; }
  PHUB_HOST_DEVICE void add(Index sum, Index term, double& first, double&) const {
    const Index i = term * kPartialSums + sum;
    if (i < elements && is_far_off(found[i], expected[i], allowed, rounding)) first += 1.0;
  }
  PHUB_HOST_DEVICE void finish(Index sum, double first, double) const { counts[sum] = first; }
};

// The mean square of a slice's differences: of all elements of one image, one pixel or one channel.
struct SliceDifferences {
  const float *found, *expected;
  Index images, pixels, channels;  // of the buffer, neighbours last
  int axis;                        // of these three, which the slices are along
  float* squares;                  // of each slice
  PHUB_HOST_DEVICE Index sums() const { return axis == 0 ? images : axis == 1 ? pixels : channels; }
  PHUB_HOST_DEVICE Index terms() const { return images * pixels * channels / sums(); }
  PHUB_HOST_DEVICE Index at(Index slice, Index term) const {
    if (axis == 0) return slice * terms() + term;
    if (axis == 1) return (term / channels * pixels + slice) * channels + term % channels;
    return term * channels + slice;
  }
  PHUB_HOST_DEVICE void add(Index slice, Index term, double& first, double&) const {
    const Index i = at(slice, term);
    const double off = difference(found[i], expected[i]);
    first += off * off;
  }
  PHUB_HOST_DEVICE void finish(Index slice, double first, double) const {
    squares[slice] = static_cast<float>(first / static_cast<double>(terms()));
  }
};

struct WrongSlices {
  const float* squares;
  Index slices;
  double most;
  double* counts;
  PHUB_HOST_DEVICE Index sums() const { return kPartialSums; }
  PHUB_HOST_DEVICE Index terms() const { return (slices + kPartialSums - 1) / kPartialSums; }
  PHUB_HOST_DEVICE void add(Index sum, Index term, double& first, double&) const {
    const Index i = term * kPartialSums + sum;
    if (i < slices && !(double{squares[i]} <= most)) first += 1.0;
  }
  PHUB_HOST_DEVICE void finish(Index sum, double first, double) const { counts[sum] = first; }
};

// Smaller slices are judged less.
inline constexpr double kSliceElements = 64.0;

inline Index elements_of(const nn::cuda::Buffer& buffer) {
  return static_cast<Index>(buffer.bytes() / nn::cuda::size_of(buffer.type));
}

// `Machine`: as GraphCheck's. Arrays have fp32 of the buffer's elements.
template <typename Machine>
class BufferJudge {
 public:
  using Array = typename Machine::Array;

  explicit BufferJudge(Machine& machine) : machine_(machine) {}  // outlives it

  // Root mean squares: of the difference, of what is expected.
  std::pair<double, double> compared(const nn::cuda::Buffer& buffer, const Array& found,
                                     const Array& expected) {
    const std::array<double*, 2> numbers = machine_.numbers();
    machine_.sum(
        Differences{found.data(), expected.data(), elements_of(buffer), numbers[0], numbers[1]});
    const auto count = static_cast<double>(elements_of(buffer));
    return {std::sqrt(machine_.total(0) / count), std::sqrt(machine_.total(1) / count)};
  }

  // How it is wrong, but for the step's name; nothing: it is right. `moved`: the largest difference
  // that a disturbance has brought.
  std::optional<Difference> wrong(const nn::cuda::Buffer& buffer, const Array& found,
                                  const Array& expected, double moved) {
    const auto [off, size] = compared(buffer, found, expected);
    Difference is{.step = {}, .buffer = buffer.name, .rms = off};
    is.elements = static_cast<std::size_t>(elements_of(buffer));
    is.allowed = allowed_difference(buffer.type, moved, size);
    machine_.sum(Outliers{found.data(), expected.data(), elements_of(buffer), is.allowed,
                          rounding_of(buffer.type), machine_.numbers()[0]});
    is.outliers = static_cast<std::size_t>(machine_.total(0));
    const bool is_right = is.rms <= is.allowed && is.outliers <= outliers_allowed(is.elements) &&
                          wrong_slices(buffer, found, expected, is.allowed) == 0;
    return is_right ? std::nullopt : std::optional(std::move(is));
  }

 private:
  // A slice may be so many times further off than the whole: where a mask turned there are few.
  std::size_t wrong_slices(const nn::cuda::Buffer& buffer, const Array& found,
                           const Array& expected, double allowed) {
    constexpr double kSliceSafety = 3.0;
    const nn::cuda::Dimensions& d = buffer.dimensions;
    std::size_t wrong = 0;
    for (const int axis : {0, 1, 2}) {
      SliceDifferences all{found.data(), expected.data(), d[0], d[2] * d[3], d[1], axis, nullptr};
      auto squares = machine_.make(static_cast<std::size_t>(all.sums()));
      all.squares = squares.data();
      machine_.sum(all);
      const double most = kSliceSafety * kSliceSafety * allowed * allowed *
                          std::max(1.0, kSliceElements / static_cast<double>(all.terms()));
      machine_.sum(WrongSlices{squares.data(), all.sums(), most, machine_.numbers()[0]});
      wrong += static_cast<std::size_t>(machine_.total(0));
    }
    return wrong;
  }

  Machine& machine_;
};

}  // namespace phub::testing::naive

// The kernels between cuDNN's graphs against their specification, on a GPU.
#include "kernels/cuda/network_kernels.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/network_reference.h"
#include "tests/cuda/kernels/mirrored.h"

namespace phub::kernels::cuda {
namespace {

using phub::testing::Mirrored;
using phub::testing::MirroredReals;
using phub::testing::require_cuda;
using phub::testing::run_both;
using phub::testing::Side;

constexpr DataType kReal = DataType::kFloat32;

// One rounding of the type, and of sums in another order.
double tolerance_of(DataType type) {
  return type == DataType::kFloat16 ? 2e-3 : type == DataType::kBfloat16 ? 1.6e-2 : 1e-5;
}

TEST_CASE("Batch normalisation's vectors agree with their specification") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const std::int64_t channels = GENERATE(8, 264, 2048);
  const auto vector = [&](unsigned seed) {
    return std::make_unique<MirroredReals>(static_cast<std::size_t>(channels), kReal, seed);
  };
  auto sum = vector(1), scale = vector(2), bias = vector(3), running_mean = vector(4),
       running_variance = vector(5), mean = vector(6), inverse = vector(7), factor = vector(8),
       offset = vector(9);
  // Sums of squares of 1000 numbers, above the square of their mean.
  std::vector<float> squares(static_cast<std::size_t>(channels), 900.0F);
  Mirrored<float> sum_of_squares(squares);
  MirroredReals factor16(squares.size(), type), offset16(squares.size(), type);
  const auto finalize = [&](Side side) {
    return FinalizeStatistics{sum->floats(side),
                              sum_of_squares.at(side),
                              scale->floats(side),
                              bias->floats(side),
                              running_mean->floats(side),
                              running_variance->floats(side),
                              mean->floats(side),
                              inverse->floats(side),
                              factor->floats(side),
                              offset->floats(side),
                              factor16.at(side),
                              offset16.at(side),
                              type,
                              channels,
                              1000,
                              1e-5F,
                              0.1F};
  };
  run_both(finalize);
  for (auto* array : {&mean, &inverse, &factor, &offset, &running_mean, &running_variance}) {
    (*array)->check(1e-5);
  }
  factor16.check(tolerance_of(type));
  offset16.check(tolerance_of(type));

  const auto inference = [&](Side side) {  // `inverse` is a variance above 0
    return InferenceFactors{
        scale->floats(side),  bias->floats(side),   mean->floats(side), inverse->floats(side),
        factor->floats(side), offset->floats(side), channels,           1e-3F};
  };
  run_both(inference);
  factor->check(1e-5);
  offset->check(1e-5);
}

TEST_CASE(
    "Batch normalisation's backward, bias gradients and statistics agree with their "
    "specification") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const std::int64_t rows = GENERATE(1, 37, 5003);
  const std::int64_t channels = GENERATE(8, 72, 512);
  const auto elements = static_cast<std::size_t>(rows * channels);
  const auto vectors = static_cast<std::size_t>(channels);
  MirroredReals dy(elements, type, 1), x(elements, type, 2), dx(elements, type, 3);
  MirroredReals a(vectors, kReal, 4), b(vectors, kReal, 5), c(vectors, kReal, 6);
  const auto apply = [&](Side side) {
    return ApplyBatchNormBackward{dy.at(side),    x.at(side),     a.floats(side),
                                  b.floats(side), c.floats(side), dx.at(side),
                                  type,           rows,           channels};
  };
  run_both(apply);
  dx.check(tolerance_of(type));

  const std::int64_t parts = rows < 8 ? 1 : 7;
  MirroredReals sums(static_cast<std::size_t>(parts * channels), kReal), gradient(vectors, kReal);
  const auto bias = [&](Side side) {
    return BiasGradient{dy.at(side), sums.floats(side), gradient.floats(side), type, rows, channels,
                        parts};
  };
  run_both(bias);
  sums.check(1e-4);
  gradient.check(1e-4);

  MirroredReals both(static_cast<std::size_t>(2 * parts * channels), kReal), sum(vectors, kReal),
      squares(vectors, kReal);
  const auto statistics = [&](Side side) {
    return ChannelStatistics{
        x.at(side), both.floats(side), sum.floats(side), squares.floats(side), type, rows, channels,
        parts};
  };
  run_both(statistics);
  both.check(1e-4);
  sum.check(1e-4);
  squares.check(1e-4);
}

TEST_CASE("Pooling of what it scales, and its backward, agree with their specification") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  // ResNet-50's stem; rounded up; more taps and more channels than a block's lanes; so large that a
  // thread has several images.
  const PoolShape shape = GENERATE(PoolShape{37, 23, 21, 64, 12, 11, 3, 3, 2, 2, 1, 1},
                                   PoolShape{3, 7, 6, 8, 4, 3, 2, 2, 2, 2, 0, 0},
                                   PoolShape{2, 14, 13, 136, 7, 7, 5, 5, 2, 2, 2, 2},
                                   PoolShape{9, 64, 64, 128, 64, 64, 3, 3, 1, 1, 1, 1});
  const std::int64_t rows = std::int64_t{shape.images} * shape.pooled_height * shape.pooled_width;
  const std::int64_t pixels = std::int64_t{shape.images} * shape.height * shape.width;
  const std::int64_t parts = rows < 300 ? 1 : 7;
  const auto large = static_cast<std::size_t>(pixels * shape.channels);
  const auto small = static_cast<std::size_t>(rows * shape.channels);
  const auto vectors = static_cast<std::size_t>(shape.channels);
  MirroredReals x(large, type, 1), dx(large, type, 2), y(small, type, 3), taken(small, type, 4),
      dy(small, type, 5);
  MirroredReals factor(vectors, kReal, 6), offset(vectors, kReal, 7), scale(vectors, kReal, 8),
      mean(vectors, kReal, 9), inverse(vectors, kReal, 10), dscale(vectors, kReal),
      dbias(vectors, kReal), dy_factor(vectors, kReal), x_factor(vectors, kReal),
      constant(vectors, kReal);
  MirroredReals sums(static_cast<std::size_t>(2 * parts * shape.channels), kReal);
  Mirrored<std::int8_t> index(std::vector<std::int8_t>(small, -7));
  const auto forward = [&](Side side) {
    return ScaledPool{x.at(side),
                      factor.floats(side),
                      offset.floats(side),
                      index.at(side),
                      taken.at(side),
                      y.at(side),
                      type,
                      shape};
  };
  run_both(forward);
  CHECK(index.download() == index.host());
  taken.check(0.0);
  y.check(tolerance_of(type));

  const auto add = [&](Side side) {
    return ScaledPoolSums{.dy = dy.at(side),
                          .taken = taken.at(side),
                          .index = index.at(side),
                          .scale = scale.floats(side),
                          .mean = mean.floats(side),
                          .inverse_deviation = inverse.floats(side),
                          .part_sums = sums.floats(side),
                          .dscale = dscale.floats(side),
                          .dbias = dbias.floats(side),
                          .dy_factor = dy_factor.floats(side),
                          .x_factor = x_factor.floats(side),
                          .constant = constant.floats(side),
                          .type = type,
                          .rows = rows,
                          .channels = shape.channels,
                          .parts = parts,
                          .count = pixels};
  };
  run_both(add);
  for (MirroredReals* array : {&sums, &dscale, &dbias, &x_factor, &constant}) array->check(1e-4);
  dy_factor.check(1e-6);

  const auto backward = [&](Side side) {
    return ScaledPoolBackward{dy.at(side),
                              x.at(side),
                              index.at(side),
                              dy_factor.floats(side),
                              x_factor.floats(side),
                              constant.floats(side),
                              dx.at(side),
                              type,
                              shape};
  };
  run_both(backward);
  dx.check(tolerance_of(type));
}

TEST_CASE("Copies of channels agree with their specification") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  struct Case {
    std::int64_t source, target, channels, from, to, clear_to;
  };
  const auto [source_channels, target_channels, channels, from, to, clear_to] =
      GENERATE(Case{16, 64, 16, 0, 24, 0}, Case{64, 16, 16, 24, 0, 16}, Case{16, 24, 12, 0, 7, 24},
               Case{24, 16, 12, 7, 0, 16});
  const std::int64_t rows = 131;
  MirroredReals source(static_cast<std::size_t>(rows * source_channels), type, 1);
  MirroredReals target(static_cast<std::size_t>(rows * target_channels), type, 2);
  const auto copy = [&, s = source_channels, t = target_channels, n = channels, f = from, o = to,
                     z = clear_to](Side side) {
    return CopyChannels{source.at(side), target.at(side), type, rows, s, t, n, f, o, z};
  };
  run_both(copy);
  target.check(0.0);
}

TEST_CASE("Subsampling and dropout agree with their specification") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  MirroredReals large(3 * 9 * 7 * 16, type, 1), small(3 * 5 * 4 * 32, type, 2);
  const auto subsample = [&](Side side, bool forward) {
    return ApplySubsample{forward ? large.at(side) : small.at(side),
                          forward ? small.at(side) : large.at(side),
                          type,
                          3,
                          9,
                          7,
                          16,
                          5,
                          4,
                          32,
                          2,
                          14,
                          7};
  };
  reference::run_forward(subsample(Side::kHost, true));
  require_cuda(run_forward(subsample(Side::kDevice, true), nullptr));
  small.check(0.0);
  reference::run_backward(subsample(Side::kHost, false));
  require_cuda(run_backward(subsample(Side::kDevice, false), nullptr));
  large.check(0.0);

  MirroredReals source(1000 * 24, type, 3), target(1000 * 24, type, 4);
  Mirrored<std::uint64_t> key({0x123456789ABCDEFU});
  const auto dropout = [&](Side side) {
    return ApplyDropout{
        source.at(side), target.at(side), key.at(side), 1ULL << 31U, 2.0F, type, 1000, 24, 20};
  };
  run_both(dropout);
  target.check(0.0);
}

}  // namespace
}  // namespace phub::kernels::cuda

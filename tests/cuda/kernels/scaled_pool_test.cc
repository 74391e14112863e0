// Normalisation, ReLU and max pooling as one: the specification against the three one after the
// other, and what a thread of the device's kernels does against the specification.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "kernels/cuda/network_reference.h"
#include "kernels/cuda/pool_eights.h"

namespace phub::kernels::cuda {
namespace {

// Elements of a type between guards, aligned as the device's.
class PoolArray {
 public:
  PoolArray(std::int64_t elements, DataType type)
      : elements_(elements),
        type_(type),
        words_(static_cast<std::size_t>(elements) * size_of(type) / sizeof(Word) + 2 * kGuard + 1,
               Word{~0ULL, ~0ULL}) {}

  void* at() { return words_.data() + kGuard; }
  const void* at() const { return words_.data() + kGuard; }
  float* floats() { return static_cast<float*>(at()); }
  std::int8_t* index() { return static_cast<std::int8_t*>(at()); }
  float operator[](std::int64_t i) const { return reference::load(at(), type_, i); }
  void set(std::int64_t i, float value) { reference::store(at(), type_, i, value); }
  std::int64_t elements() const { return elements_; }
  bool operator==(const PoolArray& other) const { return words_ == other.words_; }

 private:
  struct alignas(16) Word {
    std::uint64_t low, high;
    bool operator==(const Word&) const = default;
  };
  static constexpr std::size_t kGuard = 4;

  std::int64_t elements_;
  DataType type_;
  std::vector<Word> words_;
};

// Quarters, few of them: windows have equal numbers, and sums are exact.
void fill_quarters(PoolArray& array, unsigned seed) {
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    array.set(i, static_cast<float>(static_cast<int>(random() % 9) - 4) / 4.0F);
  }
}

constexpr std::int64_t kPoolParts = 3;

struct PoolRig {
  PoolRig(const PoolShape& chosen, DataType chosen_type)
      : shape(chosen),
        type(chosen_type),
        rows(std::int64_t{chosen.images} * chosen.pooled_height * chosen.pooled_width),
        large(chosen.images * image_elements(chosen)),
        x(large, type),
        dx(large, type),
        y(rows * shape.channels, type),
        dy(y),
        taken(y),
        index(rows * shape.channels, DataType::kFloat32),  // four times too long
        part_sums(2 * kPoolParts * shape.channels, DataType::kFloat32),
        vectors(10, PoolArray(shape.channels, DataType::kFloat32)) {
    fill_quarters(x, 1);
    fill_quarters(dy, 2);
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      factor().set(c, std::exp2(static_cast<float>(c % 3)) * (c % 2 == 0 ? 0.5F : -0.5F));
      offset().set(c, c % 7 == 6 ? -9.0F : 0.125F);  // nothing is left of the seventh
      mean().set(c, 0.5F);
      inverse().set(c, c % 2 == 0 ? 2.0F : 0.5F);
      scale().set(c, factor()[c] / inverse()[c]);
    }
  }
  PoolArray& factor() { return vectors[0]; }
  PoolArray& offset() { return vectors[1]; }
  PoolArray& scale() { return vectors[2]; }
  PoolArray& mean() { return vectors[3]; }
  PoolArray& inverse() { return vectors[4]; }
  PoolArray& dscale() { return vectors[5]; }
  PoolArray& dbias() { return vectors[6]; }
  ScaledPool forward() {
    return {x.at(), factor().floats(), offset().floats(), index.index(), taken.at(), y.at(), type,
            shape};
  }
  ScaledPoolSums sums() {
    return {.dy = dy.at(),
            .taken = taken.at(),
            .index = index.index(),
            .scale = scale().floats(),
            .mean = mean().floats(),
            .inverse_deviation = inverse().floats(),
            .part_sums = part_sums.floats(),
            .dscale = dscale().floats(),
            .dbias = dbias().floats(),
            .dy_factor = vectors[7].floats(),
            .x_factor = vectors[8].floats(),
            .constant = vectors[9].floats(),
            .type = type,
            .rows = rows,
            .channels = shape.channels,
            .parts = kPoolParts,
            .count = large / shape.channels};
  }
  ScaledPoolBackward backward() {
    return {dy.at(),
            x.at(),
            index.index(),
            vectors[7].floats(),
            vectors[8].floats(),
            vectors[9].floats(),
            dx.at(),
            type,
            shape};
  }
  void run_specification() {
    reference::run(forward());
    reference::run(sums());
    reference::run(backward());
  }

  PoolShape shape;
  DataType type;
  std::int64_t rows, large;
  PoolArray x, dx, y, dy, taken, index, part_sums;
  std::vector<PoolArray> vectors;
};

// Images, height, width, channels; windows; their size, stride and padding.
PoolShape any_pool_shape() {
  return GENERATE(PoolShape{3, 9, 7, 16, 5, 4, 3, 3, 2, 2, 1, 1},   // ResNet-50's
                  PoolShape{2, 7, 6, 8, 4, 3, 2, 2, 2, 2, 0, 0},    // rounded up: beyond the end
                  PoolShape{1, 8, 8, 24, 4, 4, 3, 3, 2, 2, 0, 0},   // so too, and they overlap
                  PoolShape{5, 4, 5, 8, 4, 5, 3, 3, 1, 1, 1, 1},    // nine windows see a pixel
                  PoolShape{2, 8, 7, 8, 3, 3, 2, 1, 3, 3, 0, 0},    // none sees some
                  PoolShape{2, 5, 9, 8, 4, 5, 2, 3, 1, 2, 0, 1},    // not square
                  PoolShape{2, 11, 11, 8, 6, 6, 5, 5, 2, 2, 2, 2},  // more than is loaded at once
                  PoolShape{3, 4, 4, 8, 1, 1, 4, 4, 1, 1, 0, 0},    // the whole image
                  PoolShape{1, 1, 1, 8, 1, 1, 3, 3, 2, 2, 1, 1});
}

// The three in double precision, each with an array of its own.
struct Separately {
  explicit Separately(PoolRig& rig) : s(rig.shape), z(values(rig.large)), dz(z) {
    for (std::int64_t i = 0; i < rig.large; ++i) {
      const std::int64_t c = i % s.channels;
      const double scaled = double{rig.factor()[c]} * double{rig.x[i]} + double{rig.offset()[c]};
      z[static_cast<std::size_t>(i)] = std::max(scaled, 0.0);
    }
    for (std::int64_t i = 0; i < rig.rows * s.channels; ++i) pool(rig, i);
    for (std::int64_t i = 0; i < rig.large; ++i) {
      if (!(z[static_cast<std::size_t>(i)] > 0.0)) dz[static_cast<std::size_t>(i)] = 0.0;
    }
  }
  static std::vector<double> values(std::int64_t elements) {
    return std::vector<double>(static_cast<std::size_t>(elements), 0.0);
  }
  void pool(PoolRig& rig, std::int64_t i) {
    const std::int64_t c = i % s.channels, q = i / s.channels % s.pooled_width;
    const std::int64_t p = i / s.channels / s.pooled_width % s.pooled_height;
    const std::int64_t image = i / s.channels / s.pooled_width / s.pooled_height;
    double largest = -1.0;
    std::size_t where = 0;
    for (std::int64_t h = 0; h < s.height; ++h) {
      for (std::int64_t w = 0; w < s.width; ++w) {
        const std::int64_t row = h + s.pad_height - p * s.stride_height;
        const std::int64_t column = w + s.pad_width - q * s.stride_width;
        const bool seen =
            row >= 0 && row < s.window_height && column >= 0 && column < s.window_width;
        const auto at =
            static_cast<std::size_t>(((image * s.height + h) * s.width + w) * s.channels + c);
        if (!seen || z[at] <= largest) continue;
        largest = z[at];
        where = at;
      }
    }
    y.push_back(largest);
    dz[where] += double{rig.dy[i]};
  }

  PoolShape s;
  std::vector<double> z, dz, y;
};

double tolerance_of(DataType type) {
  return type == DataType::kFloat32 ? 1e-6 : type == DataType::kFloat16 ? 1e-3 : 8e-3;
}

TEST_CASE("Pooling what it scales, the specification does what three layers do") {
  const DataType type = GENERATE(DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16);
  PoolRig rig(any_pool_shape(), type);
  rig.run_specification();
  const Separately expected(rig);
  for (std::int64_t i = 0; i < rig.y.elements(); ++i) {
    REQUIRE(rig.y[i] == Approx(expected.y[static_cast<std::size_t>(i)]).epsilon(1e-6));
  }
  const std::int64_t channels = rig.shape.channels;
  const auto count = static_cast<double>(rig.large / channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    double dbias = 0.0, dscale = 0.0;
    const double mean = double{rig.mean()[c]}, inverse = double{rig.inverse()[c]};
    const auto normal = [&](std::int64_t i) { return (double{rig.x[i]} - mean) * inverse; };
    for (std::int64_t i = c; i < rig.large; i += channels) {
      dbias += expected.dz[static_cast<std::size_t>(i)];
      dscale += expected.dz[static_cast<std::size_t>(i)] * normal(i);
    }
    INFO("channel " << c);
    CHECK(double{rig.dbias()[c]} == dbias);
    CHECK(double{rig.dscale()[c]} == dscale);
    for (std::int64_t i = c; i < rig.large; i += channels) {
      const double gradient = expected.dz[static_cast<std::size_t>(i)];
      const double dx = double{rig.scale()[c]} * inverse *
                        (gradient - dbias / count - normal(i) * dscale / count);
      REQUIRE(double{rig.dx[i]} == Approx(dx).margin(8.0 * tolerance_of(type)));
    }
  }
}

TEST_CASE("A gradient goes to the first of equal maxima, and nowhere where the ReLU cuts") {
  PoolRig rig({1, 2, 2, 8, 1, 1, 2, 2, 2, 2, 0, 0}, DataType::kFloat32);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Channel by channel: four pixels, factor, offset; the tap or -1.
  struct Case {
    float x[4], factor, offset;
    int index;
    float y;
  };
  const Case cases[] = {{{1, 1, 1, 1}, 2, 0, 0, 2},     {{0, 3, 1, 3}, 1, 0, 1, 3},
                        {{2, 1, -1, -1}, -1, 0, 2, 1},  {{-1, -2, -3, -1}, 1, 0, -1, 0},
                        {{-1, 0, -1, 0}, 1, 0, -1, 0},  {{1, 2, 3, 4}, 1, -4, -1, 0},
                        {{1, 2, 4, 3}, 0, 0.5, 2, 0.5}, {{1, 2, 4, 3}, 1, nan, 2, nan}};
  for (std::int64_t c = 0; c < 8; ++c) {
    for (std::int64_t pixel = 0; pixel < 4; ++pixel) rig.x.set(pixel * 8 + c, cases[c].x[pixel]);
    rig.factor().set(c, cases[c].factor);
    rig.offset().set(c, cases[c].offset);
  }
  rig.run_specification();
  for (std::int64_t c = 0; c < 8; ++c) {
    INFO("channel " << c);
    CHECK(int{rig.index.index()[c]} == cases[c].index);
    CHECK((rig.y[c] == cases[c].y || (std::isnan(rig.y[c]) && std::isnan(cases[c].y))));
    CHECK(rig.dbias()[c] == (cases[c].index < 0 ? 0.0F : rig.dy[c]));
  }
}

// As a device accesses memory; whether what is accessed is there and aligned.
class WatchedMemory {
 public:
  explicit WatchedMemory(PoolRig& rig) : type_(rig.type) {
    for (PoolArray* array : {&rig.x, &rig.dx, &rig.y, &rig.dy, &rig.taken}) {
      elements_[array->at()] = array->elements();
    }
    index_ = rig.index.index();
    index_elements_ = rig.y.elements();
  }
  void load(const void* array, std::int64_t at, float* values) const {
    check(at >= 0 && at % kEight == 0 && at + kEight <= elements_.at(array));
    if (!fine_) return;
    for (int j = 0; j < kEight; ++j) values[j] = reference::load(array, type_, at + j);
  }
  void store(void* array, std::int64_t at, const float* values) const {
    check(at >= 0 && at % kEight == 0 && at + kEight <= elements_.at(array));
    if (!fine_) return;
    for (int j = 0; j < kEight; ++j) reference::store(array, type_, at + j, values[j]);
  }
  void load_vector(const float* from, float* values) const {
    check(reinterpret_cast<std::uintptr_t>(from) % 16 == 0);
    std::copy_n(from, kEight, values);
  }
  void load_index(const std::int8_t* from, std::int8_t* index) const {
    check_index(from);
    if (fine_) std::copy_n(from, kEight, index);
  }
  void store_index(std::int8_t* to, const std::int8_t* index) const {
    check_index(to);
    if (fine_) std::copy_n(index, kEight, to);
  }
  bool is_fine() const { return fine_; }

 private:
  void check(bool right) const { fine_ = fine_ && right; }
  void check_index(const std::int8_t* at) const {
    const std::int64_t first = at - index_;
    check(first >= 0 && first % kEight == 0 && first + kEight <= index_elements_);
  }

  DataType type_;
  std::map<const void*, std::int64_t> elements_;
  const std::int8_t* index_ = nullptr;
  std::int64_t index_elements_ = 0;
  mutable bool fine_ = true;
};

// All threads of the kernels one after the other.
void run_threads(PoolRig& rig, const WatchedMemory& memory) {
  constexpr std::int32_t kStreams = 2;
  constexpr std::int64_t kRows = 4;
  const PoolShape& s = rig.shape;
  const std::int32_t groups = s.channels / kEight;
  for (std::int32_t lane = 0; lane < kStreams; ++lane) {
    for (std::int32_t i = 0; i < s.pooled_height * s.pooled_width * groups; ++i) {
      pool_eight(rig.forward(), pool_place(i, s.pooled_width, s.channels), {lane, kStreams},
                 memory);
    }
  }
  const ScaledPoolSums a = rig.sums();
  for (std::int64_t c = 0; c < s.channels; ++c) {
    float gradients = 0.0F, products = 0.0F;
    for (std::int64_t part = 0; part < a.parts; ++part) {
      const PoolRows rows = rows_of(a, part);
      float own[2] = {};
      for (std::int64_t row = rows.first; row < rows.first + kRows; ++row) {
        const PoolSums sums = sum_eight(a, c / kEight * kEight, row, rows.end, kRows, memory);
        own[0] += sums.gradients[c % kEight];
        own[1] += sums.products[c % kEight];
      }
      a.part_sums[part * a.channels + c] = own[0];
      a.part_sums[(a.parts + part) * a.channels + c] = own[1];
      gradients += own[0];
      products += own[1];
    }
    finish_sums(a, c, gradients, products);
  }
  for (std::int32_t lane = 0; lane < kStreams; ++lane) {
    for (std::int32_t i = 0; i < s.height * s.width * groups; ++i) {
      spread_eight(rig.backward(), pool_place(i, s.width, s.channels), {lane, kStreams}, memory);
    }
  }
}

TEST_CASE("Eight channels at a time, pooling what it scales is the specification's") {
  const DataType type = GENERATE(DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16);
  const PoolShape shape = any_pool_shape();
  PoolRig expected(shape, type), own(shape, type);
  if (GENERATE(false, true)) {  // any numbers, among them what is none
    for (PoolRig* rig : {&expected, &own}) {
      rig->x.set(0, -std::numeric_limits<float>::infinity());
      rig->offset().set(3, std::numeric_limits<float>::quiet_NaN());
      rig->factor().set(1, 0.0F);
      rig->factor().set(5, -0.0F);
    }
  }
  expected.run_specification();
  const WatchedMemory memory(own);
  run_threads(own, memory);
  CHECK(memory.is_fine());
  CHECK(own.y == expected.y);
  CHECK(own.taken == expected.taken);
  CHECK(own.index == expected.index);
  CHECK(own.part_sums == expected.part_sums);
  CHECK(own.vectors == expected.vectors);
  CHECK(own.dx == expected.dx);
}

}  // namespace
}  // namespace phub::kernels::cuda

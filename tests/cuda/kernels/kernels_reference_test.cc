// The specifications of the training kernels against what they must agree with elsewhere.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "kernels/cuda/parameter_eights.h"
#include "kernels/cuda/training_reference.h"
#include "kernels/lamb.h"
#include "kernels/reference.h"
#include "worker/nn/loss.h"

namespace phub::kernels::cuda {
namespace {

std::vector<float> random_floats(std::size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(elements);
  for (float& value : values) value = uniform(random);
  return values;
}

constexpr DataType kSingle = DataType::kFloat32;

TEST_CASE("A parameter that is loaded and published comes back, and its padding is 0") {
  std::vector<float> plain(6 * 3 * 4), back(plain.size());
  std::iota(plain.begin(), plain.end(), 1.0F);
  std::vector<float> padded(8 * 4 * 4, -1.0F);
  ParameterTensor tensor{plain.data(), padded.data(), 6, 3, 4, 8, 4, kSingle, kSingle};
  const TensorChunk chunk{0, 0};
  reference::run(LoadParameters{&tensor, &chunk, 1});
  // Element [k = 1][c = 2][pixel = 3] lies at [1][3][2].
  CHECK(padded[(1 * 4 + 3) * 4 + 2] == plain[(1 * 3 + 2) * 4 + 3]);
  CHECK(padded[3] == 0.0F);          // c = 3
  CHECK(padded[6 * 4 * 4] == 0.0F);  // k = 6
  int not_finite = 0;
  tensor.plain = back.data();
  reference::run(PublishGradients{&tensor, &chunk, 1, 0.5F, &not_finite});
  for (float& value : back) value *= 2.0F;
  CHECK(back == plain);
  CHECK(not_finite == 0);
  padded[5] = std::nanf("");
  reference::run(PublishGradients{&tensor, &chunk, 1, 1.0F, &not_finite});
  CHECK(not_finite == 1);
}

// As a device accesses memory, and whether it accesses what is there and is aligned.
struct CheckedMemory {
  float load(const void* array, DataType type, std::int64_t index) const {
    return reference::load(array, type, index);
  }
  void store(void* array, DataType type, std::int64_t index, float value) const {
    reference::store(array, type, index, value);
  }
  void load_eight(const void* array, DataType type, std::int64_t index, float* values) const {
    REQUIRE(index % kEight == 0);
    REQUIRE(is_aligned(array));
    for (int j = 0; j < kEight; ++j) values[j] = load(array, type, index + j);
  }
  void store_eight(void* array, DataType type, std::int64_t index, const float* values) const {
    REQUIRE(index % kEight == 0);
    REQUIRE(is_aligned(array));
    for (int j = 0; j < kEight; ++j) store(array, type, index + j, values[j]);
  }
  bool is_finite_as(DataType type, float value) const {
    float stored = 0.0F;
    store(&stored, type, 0, value);
    return std::isfinite(load(&stored, type, 0));
  }
};

// Bytes behind a guard: what is written outside shows.
struct Guarded {
  Guarded(std::int64_t elements, DataType type, std::size_t shift)
      : bytes(static_cast<std::size_t>(elements) * size_of(type)), offset(64 + shift) {
    storage.resize((bytes + offset + 64) / sizeof(std::uint64_t) + 8, ~std::uint64_t{0});
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    offset += (16 - address % 16) % 16;
  }
  void* at() { return reinterpret_cast<std::byte*>(storage.data()) + offset; }

  std::size_t bytes, offset;
  std::vector<std::uint64_t> storage;
};

TEST_CASE("Eight at a time, parameters and gradients are those of the specification") {
  const DataType plain_type = GENERATE(DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16);
  const DataType padded_type = GENERATE(DataType::kFloat16, DataType::kFloat32);
  const std::size_t shift = GENERATE(0U, 4U);  // of the plain array, as an exchange may give it
  const auto [k, c, pixels, padded_k, padded_c] =
      GENERATE(table<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>(
          {{20, 3, 25, 24, 4},
           {10, 1, 1, 16, 1},
           {64, 64, 9, 64, 64},
           {64, 128, 1, 64, 128},
           {10, 20, 1, 16, 24},
           {7, 12, 1, 8, 16},
           {5, 8, 1, 8, 8},
           {1000, 1, 1, 1000, 1},
           {3, 17, 4, 8, 24},
           {2, 8, 1, 8, 16}}));
  const auto random_bytes = [](Guarded& array, DataType type, std::int64_t elements,
                               unsigned seed) {
    const auto values = random_floats(static_cast<std::size_t>(elements), seed);
    for (std::int64_t i = 0; i < elements; ++i) {
      reference::store(array.at(), type, i, values[static_cast<std::size_t>(i)]);
    }
  };
  const std::int64_t plain_elements = k * c * pixels,
                     padded_elements = padded_k * padded_c * pixels;
  Guarded plain(plain_elements, plain_type, shift), padded(padded_elements, padded_type, 0);
  random_bytes(plain, plain_type, plain_elements, 1);
  random_bytes(padded, padded_type, padded_elements, 2);
  Guarded own_plain = plain, own_padded = padded;
  const ParameterTensor expected{plain.at(), padded.at(), k,          c,          pixels,
                                 padded_k,   padded_c,    plain_type, padded_type};
  ParameterTensor own = expected;
  own.plain = own_plain.at();
  own.padded = own_padded.at();
  const auto chunks = [](std::int64_t elements) {
    std::vector<TensorChunk> all;
    for (std::int64_t i = 0; i < chunks_of(elements); ++i) {
      all.push_back({0, static_cast<std::uint32_t>(i)});
    }
    return all;
  };
  SECTION("loaded") {
    const auto all = chunks(padded_elements);
    reference::run(LoadParameters{&expected, all.data(), static_cast<std::int64_t>(all.size())});
    for (std::int64_t i = 0; i < padded_elements; i += kEight) {
      load_eight(own, i, CheckedMemory{});
    }
  }
  SECTION("published") {
    const float scale = GENERATE(0.25F, 3e38F);  // the second overflows
    const auto all = chunks(plain_elements);
    int not_finite = 0;
    reference::run(PublishGradients{&expected, all.data(), static_cast<std::int64_t>(all.size()),
                                    scale, &not_finite});
    bool finite = true;
    for (std::int64_t i = 0; i < plain_elements; i += kEight) {
      finite = publish_eight(own, i, scale, CheckedMemory{}) && finite;
    }
    CHECK(finite == (not_finite == 0));
  }
  CHECK(own_plain.storage == plain.storage);
  CHECK(own_padded.storage == padded.storage);
}

TEST_CASE("The loss and its gradient are those of worker/nn/loss.h, also of mixed images") {
  constexpr std::int64_t kImages = 5, kClasses = 10, kPadded = 16;
  const float smoothing = GENERATE(0.0F, 0.1F);
  const bool is_mixed = GENERATE(false, true);
  const std::vector<float> logits = random_floats(kImages * kClasses, 1);
  const std::vector<nn::Label> labels = {3, 0, 9, 5, 5}, others = {0, 3, 5, 9, 5};
  const std::vector<float> shares = {0.75F, 0.75F, 0.5F, 1.0F, 0.625F};
  std::vector<float> expected(logits.size());
  const nn::Labels all = is_mixed ? nn::Labels(labels, others, shares) : nn::Labels(labels);
  const nn::Loss loss =
      nn::softmax_cross_entropy(logits, all, expected, {.label_smoothing = smoothing});

  std::vector<float> rows(kImages * kPadded, 50.0F), gradient(rows.size(), -1.0F);
  std::vector<float> losses(kImages);
  std::vector<std::int32_t> correct(kImages), targets(labels.begin(), labels.end());
  const std::vector<std::int32_t> second(others.begin(), others.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rows[i / kClasses * kPadded + i % kClasses] = logits[i];
  }
  reference::run(SoftmaxLoss{rows.data(), targets.data(), gradient.data(), losses.data(),
                             correct.data(), kSingle, kImages, kClasses, kPadded, smoothing,
                             1.0F / kImages, is_mixed ? second.data() : nullptr,
                             is_mixed ? shares.data() : nullptr});
  CHECK(std::accumulate(losses.begin(), losses.end(), 0.0) == Approx(loss.sum));
  CHECK(std::accumulate(correct.begin(), correct.end(), 0U) == loss.correct);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::size_t c = i % kPadded;
    const float is = c < kClasses ? expected[i / kPadded * kClasses + c] : 0.0F;
    CHECK(gradient[i] == Approx(is).margin(1e-7));
  }
}

TEST_CASE("Local momentum and Nesterov are the server's rules, for each tensor that decays") {
  const auto [rule, local] = GENERATE(std::pair{RuleKind::kMomentum, LocalRule::kMomentum},
                                      std::pair{RuleKind::kNesterov, LocalRule::kNesterov});
  std::vector<float> weights = random_floats(100, 1), velocity = random_floats(100, 2);
  const std::vector<float> gradient = random_floats(100, 3);
  std::vector<float> expected = weights, expected_velocity = velocity;
  const Source source{reinterpret_cast<const std::byte*>(gradient.data()), kSingle};
  kernels::reference::update({.sources = {&source, 1},
                              .elements = 100,
                              .rule = rule,
                              .hyper = {0.1F, 0.9F, 0.5F, 0.0F},
                              .weight_decay = 1e-2F,
                              .parameters = expected.data(),
                              .state = expected_velocity.data()});
  const OptimizedTensor tensor{
      weights.data(), velocity.data(), gradient.data(), 100, kSingle, true};
  const TensorChunk chunk{0, 0};
  const int skip = 0;
  OptimizerStep step{&tensor, &chunk, 1,    1,    local,   0.1F,    0.9F,
                     1e-2F,   0.5F,   0.0F, 0.0F, nullptr, nullptr, &skip};
  reference::run(step);
  CHECK(weights == expected);
  CHECK(velocity == expected_velocity);
}

TEST_CASE("Local adaptive rules are the server's, which count the steps that are made") {
  const auto [rule, local] = GENERATE(std::pair{RuleKind::kAdam, LocalRule::kAdam},
                                      std::pair{RuleKind::kAdamW, LocalRule::kAdamW},
                                      std::pair{RuleKind::kAdagrad, LocalRule::kAdagrad},
                                      std::pair{RuleKind::kLamb, LocalRule::kLamb});
  const bool decays = GENERATE(true, false);
  const AdaptiveOptions options{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
  std::vector<float> weights = random_floats(100, 1), means(100), squares(100);
  std::vector<float> expected = weights, expected_state(200);
  std::int64_t updates = 0;
  AdaptiveStep factors;
  float trust = 0.0F;
  const TensorChunk chunk{0, 0};
  for (unsigned step = 0; step < 6; ++step) {
    std::vector<float> gradient = random_floats(100, 3 + step);
    const OptimizedTensor tensor{weights.data(), means.data(), gradient.data(), 100,
                                 kSingle,        decays,       squares.data()};
    const int skip = step == 2 ? 1 : 0;
    reference::run(OptimizerStep{.tensors = &tensor,
                                 .chunks = &chunk,
                                 .chunk_count = 1,
                                 .tensor_count = 1,
                                 .rule = local,
                                 .learning_rate = 0.1F,
                                 .momentum = 0.0F,
                                 .weight_decay = 1e-2F,
                                 .gradient_scale = 0.5F,
                                 .lars_coefficient = 0.0F,
                                 .lars_epsilon = 0.0F,
                                 .chunk_squares = nullptr,
                                 .trust = &trust,
                                 .skip = &skip,
                                 .adaptive = options,
                                 .updates = &updates,
                                 .factors = &factors});
    if (skip == 0) {
      const AdaptiveStep before = adaptive_step(rule, options, 0.1F, step - (step > 2 ? 1U : 0U));
      const Source source{reinterpret_cast<const std::byte*>(gradient.data()), kSingle};
      Update update = {.sources = {&source, 1},
                       .elements = 100,
                       .rule = rule,
                       .hyper = {0.1F, 0.0F, 0.5F, 0.0F},
                       .weight_decay = decays ? 1e-2F : 0.0F,
                       .adaptive = &before,
                       .parameters = expected.data(),
                       .state = expected_state.data(),
                       .state_stride = 100};
      if (rule == RuleKind::kLamb) {
        kernels::reference::lamb_direction(update, gradient.data());
        update.trust = trust;
        const float wanted = lamb_trust(kernels::reference::sum_of_squares(expected.data(), 100),
                                        kernels::reference::sum_of_squares(gradient.data(), 100));
        CHECK(trust == Approx(decays ? wanted : 1.0F));
      }
      kernels::reference::update(update);
    }
    CHECK(weights == expected);
    CHECK(std::equal(means.begin(), means.end(), expected_state.begin()));
    if (state_arrays(rule) > 1) {
      CHECK(std::equal(squares.begin(), squares.end(), expected_state.begin() + 100));
    }
  }
  CHECK(updates == 5);
}

TEST_CASE("LARS moves a tensor by its share of its own norm") {
  std::vector<float> weights = {3.0F, 4.0F}, velocity = {0.0F, 0.0F};
  const std::vector<float> gradient = {0.0F, 2.0F};
  const OptimizedTensor tensor{weights.data(), velocity.data(), gradient.data(), 2, kSingle, true};
  const TensorChunk chunk{0, 0};
  const int skip = 0;
  float trust = 0.0F;
  reference::run(OptimizerStep{&tensor, &chunk, 1, 1, LocalRule::kLars, 1.0F, 0.0F, 0.0F, 1.0F,
                               0.01F, 0.0F, nullptr, &trust, &skip});
  CHECK(trust == Approx(0.01 * 5.0 / 2.0));
  CHECK(weights[0] == 3.0F);
  CHECK(weights[1] == Approx(4.0 - 0.025 * 2.0));
}

}  // namespace
}  // namespace phub::kernels::cuda

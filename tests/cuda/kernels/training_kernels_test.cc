// The kernels around a training step against their specification, on a GPU.
#include "kernels/cuda/training_kernels.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/training_reference.h"
#include "tests/cuda/kernels/mirrored.h"

namespace phub::kernels::cuda {
namespace {

using phub::testing::Mirrored;
using phub::testing::MirroredReals;
using phub::testing::run_both;
using phub::testing::Side;

constexpr DataType kSingle = DataType::kFloat32;

std::vector<TensorChunk> chunks_for(const std::vector<std::int64_t>& sizes) {
  std::vector<TensorChunk> chunks;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    for (std::int64_t chunk = 0; chunk < chunks_of(sizes[t]); ++chunk) {
      chunks.push_back({static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(chunk)});
    }
  }
  return chunks;
}

TEST_CASE("Parameters are loaded and gradients published as specified") {
  const DataType padded_type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const DataType plain_type = GENERATE(DataType::kFloat32, DataType::kFloat16);
  // A padded convolution, a vector, and one of several chunks.
  const std::vector<ParameterTensor> shapes = {
      {nullptr, nullptr, 20, 3, 25, 24, 4, plain_type, padded_type},
      {nullptr, nullptr, 10, 1, 1, 16, 1, kSingle, kSingle},
      {nullptr, nullptr, 64, 64, 9, 64, 64, plain_type, padded_type}};
  std::vector<std::unique_ptr<MirroredReals>> plain, padded;
  std::vector<ParameterTensor> host = shapes, device = shapes;
  std::vector<std::int64_t> plain_sizes, padded_sizes;
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const ParameterTensor& s = shapes[t];
    plain_sizes.push_back(s.k * s.c * s.pixels);
    padded_sizes.push_back(s.padded_k * s.padded_c * s.pixels);
    plain.push_back(std::make_unique<MirroredReals>(static_cast<std::size_t>(plain_sizes[t]),
                                                    s.plain_type, static_cast<unsigned>(t)));
    padded.push_back(std::make_unique<MirroredReals>(static_cast<std::size_t>(padded_sizes[t]),
                                                     s.padded_type, static_cast<unsigned>(t + 9)));
    host[t].plain = plain[t]->at(Side::kHost);
    host[t].padded = padded[t]->at(Side::kHost);
    device[t].plain = plain[t]->at(Side::kDevice);
    device[t].padded = padded[t]->at(Side::kDevice);
  }
  Mirrored<ParameterTensor> tensors(device);
  const auto side_tensors = [&](Side side) {
    return side == Side::kHost ? host.data() : tensors.at(side);
  };

  Mirrored<TensorChunk> load_chunks(chunks_for(padded_sizes));
  const auto load = [&](Side side) {
    return LoadParameters{side_tensors(side), load_chunks.at(side),
                          static_cast<std::int64_t>(load_chunks.host().size())};
  };
  run_both(load);
  for (auto& array : padded) array->check(0.0);

  Mirrored<TensorChunk> publish_chunks(chunks_for(plain_sizes));
  const float scale = GENERATE(0.25F, 3e38F);  // the second overflows
  Mirrored<int> not_finite({0});
  const auto publish = [&](Side side) {
    return PublishGradients{side_tensors(side), publish_chunks.at(side),
                            static_cast<std::int64_t>(publish_chunks.host().size()), scale,
                            not_finite.at(side)};
  };
  run_both(publish);
  CHECK(not_finite.download() == not_finite.host());
  CHECK((not_finite.host()[0] == 1) == (scale > 1.0F && plain_type == DataType::kFloat16));
  if (scale < 1.0F) {
    for (auto& array : plain) array->check(0.0);
  }
}

TEST_CASE("Softmax, loss and its gradient agree with their specification") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const std::int64_t classes = GENERATE(10, 1000);
  const float smoothing = GENERATE(0.0F, 0.1F);
  const bool is_mixed = GENERATE(false, true);
  const std::int64_t images = 33, padded = (classes + 7) / 8 * 8;
  MirroredReals logits(static_cast<std::size_t>(images * padded), type, 1);
  MirroredReals gradient(static_cast<std::size_t>(images * padded), type, 2);
  MirroredReals loss(static_cast<std::size_t>(images), kSingle, 3);
  Mirrored<std::int32_t> correct(std::vector<std::int32_t>(static_cast<std::size_t>(images), -1));
  std::vector<std::int32_t> classes_of, others_of;
  for (std::int64_t i = 0; i < images; ++i) {
    classes_of.push_back(static_cast<std::int32_t>(i * 37 % classes));
    others_of.push_back(static_cast<std::int32_t>(i * 29 % classes));
  }
  Mirrored<std::int32_t> labels(classes_of), second_labels(others_of);
  MirroredReals shares(static_cast<std::size_t>(images), kSingle, 4, 0.5F);
  const auto softmax = [&](Side side) {
    return SoftmaxLoss{logits.at(side),
                       labels.at(side),
                       gradient.at(side),
                       loss.floats(side),
                       correct.at(side),
                       type,
                       images,
                       classes,
                       padded,
                       smoothing,
                       128.0F,
                       is_mixed ? second_labels.at(side) : nullptr,
                       is_mixed ? shares.floats(side) : nullptr};
  };
  run_both(softmax);
  gradient.check(type == DataType::kFloat16 ? 2e-3 : 1.6e-2);
  loss.check(1e-5);
  CHECK(correct.download() == correct.host());
}

TEST_CASE("The local optimizer agrees with its specification, and skips") {
  const LocalRule rule =
      GENERATE(LocalRule::kMomentum, LocalRule::kNesterov, LocalRule::kLars, LocalRule::kAdam,
               LocalRule::kAdamW, LocalRule::kAdagrad, LocalRule::kLamb);
  const bool skip = GENERATE(false, true);
  const std::vector<std::int64_t> sizes = {10000, 7, 4096};
  std::vector<std::unique_ptr<MirroredReals>> weights, velocities, gradients, squares_means;
  std::vector<OptimizedTensor> host, device;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const auto elements = static_cast<std::size_t>(sizes[t]);
    const auto seed = static_cast<unsigned>(3 * t);
    const DataType type = t == 0 ? DataType::kFloat16 : kSingle;
    weights.push_back(std::make_unique<MirroredReals>(elements, kSingle, seed));
    const float lowest = rule == LocalRule::kAdagrad ? 0.0F : -1.0F;  // squares are not below 0
    velocities.push_back(std::make_unique<MirroredReals>(elements, kSingle, seed + 1, lowest));
    gradients.push_back(std::make_unique<MirroredReals>(elements, type, seed + 2));
    squares_means.push_back(std::make_unique<MirroredReals>(elements, kSingle, seed + 1, 0.0F));
    for (const Side side : {Side::kHost, Side::kDevice}) {
      (side == Side::kHost ? host : device)
          .push_back({weights[t]->floats(side), velocities[t]->floats(side), gradients[t]->at(side),
                      sizes[t], type, t != 1, squares_means[t]->floats(side)});
    }
  }
  Mirrored<OptimizedTensor> tensors(device);
  Mirrored<TensorChunk> chunks(chunks_for(sizes));
  const std::size_t count = chunks.host().size();
  Mirrored<double> squares(std::vector<double>(2 * count));
  Mirrored<float> trust(std::vector<float>(sizes.size()));
  Mirrored<int> skipped({skip ? 1 : 0});
  Mirrored<std::int64_t> updates({6});
  Mirrored<AdaptiveStep> factors({AdaptiveStep()});
  const auto step = [&](Side side) {
    return OptimizerStep{side == Side::kHost ? host.data() : tensors.at(side),
                         chunks.at(side),
                         static_cast<std::int64_t>(count),
                         static_cast<std::int64_t>(sizes.size()),
                         rule,
                         0.1F,
                         0.9F,
                         1e-4F,
                         0.5F,
                         0.001F,
                         0.0F,
                         squares.at(side),
                         trust.at(side),
                         skipped.at(side),
                         {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6},
                         updates.at(side),
                         factors.at(side)};
  };
  run_both(step);
  for (auto& array : weights) array->check(1e-5);
  for (auto& array : velocities) array->check(1e-5);
  for (auto& array : squares_means) array->check(1e-5);
  CHECK(updates.download() == updates.host());
}

TEST_CASE("Images are cropped, mirrored and normalised as specified") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool bytes = GENERATE(true, false);
  const std::size_t elements = 3 * 40 * 36 * 3;
  std::vector<std::uint8_t> pixels(elements);
  for (std::size_t i = 0; i < elements; ++i) pixels[i] = static_cast<std::uint8_t>(i * 7 % 256);
  Mirrored<std::uint8_t> images(pixels);
  MirroredReals reals(elements, kSingle, 1);
  MirroredReals target(3 * 32 * 28 * 4, type, 2);
  Mirrored<std::int32_t> top({0, 8, 3}), left({8, 0, 5});
  Mirrored<std::uint8_t> flip({1, 0, 1});
  const auto prepare = [&](Side side) {
    return PrepareImages{bytes ? static_cast<void*>(images.at(side)) : reals.at(side),
                         top.at(side),
                         left.at(side),
                         flip.at(side),
                         target.at(side),
                         {0.485F, 0.456F, 0.406F, 0.0F},
                         {0.229F, 0.224F, 0.225F, 1.0F},
                         bytes,
                         type,
                         3,
                         40,
                         36,
                         3,
                         32,
                         28,
                         4};
  };
  run_both(prepare);
  target.check(type == DataType::kFloat16 ? 1e-3 : 8e-3);
}

}  // namespace
}  // namespace phub::kernels::cuda

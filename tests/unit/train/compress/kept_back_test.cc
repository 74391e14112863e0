// What error feedback keeps back where something goes wrong: gradients that are not finite, sums
// beyond a type's range, updates that are left out; and where a training goes on from a checkpoint.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "tests/unit/train/compress/compressing_worker.h"

namespace phub::compress {
namespace {

bool are_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float each) { return std::isfinite(each); });
}

TEST_CASE("a gradient that is not finite arrives as it is, and no rest of its chunk is touched") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  const DataType type = GENERATE(DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16);
  const float momentum = GENERATE(0.0F, 0.5F);
  const float infinity = std::numeric_limits<float>::infinity();
  const float wrongs[] = {infinity, -infinity, std::nanf("")};
  const float wrong = wrongs[GENERATE(0, 1, 2)];
  const bool is_all = GENERATE(false, true);
  CAPTURE(name_of(encoding), name_of(type), momentum, wrong, is_all);
  std::mt19937 random(48);
  Worker worker({5000}, type,
                {.encoding = encoding, .density = 0.01F, .dense_below = 1, .momentum = momentum});
  for (int round = 0; round < 3; ++round) worker.push(0, whole_numbers(5000, random));
  const KeptBack kept = worker.compressor->kept_back(0);
  const std::vector<float> rest(kept.rest.begin(), kept.rest.end());
  const std::vector<float> velocity(kept.velocity.begin(), kept.velocity.end());

  std::vector<float> gradient(is_all ? std::vector<float>(5000, wrong)
                                     : whole_numbers(5000, random));
  gradient[100] = wrong;
  worker.push(0, gradient);
  const std::ptrdiff_t end = is_all ? 5000 : worker.plan.chunks[0].elements;
  const auto is_same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const auto begins_with = [&](std::span<const float> values, const std::vector<float>& wanted) {
    return std::equal(values.begin(), values.begin() + end, wanted.begin(), is_same);
  };
  CHECK(begins_with(worker.pushed[0], gradient));
  CHECK(begins_with(kept.rest, rest));
  CHECK((velocity.empty() || begins_with(kept.velocity, velocity)));
  CHECK(are_finite(std::span(worker.pushed[0]).subspan(static_cast<std::size_t>(end))));
  worker.compressor->replied(0, worker.at(0), [](std::uint32_t) { return true; });
  CHECK(begins_with(kept.rest, rest));

  for (int round = 0; round < 3; ++round) {
    worker.push(0, whole_numbers(5000, random));
    REQUIRE(are_finite(worker.pushed[0]));
    REQUIRE(are_finite(kept.rest));
    REQUIRE(are_finite(kept.velocity));
  }
}

TEST_CASE("sums of finite gradients stay finite, in every encoding") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  const float momentum = GENERATE(0.0F, 0.9F);
  Worker worker({5000}, DataType::kFloat32,
                {.encoding = encoding, .density = 0.01F, .dense_below = 1, .momentum = momentum});
  const float most = std::numeric_limits<float>::max();
  for (const float large : {most, most, most, -most, 1.0F, 1.0F}) {
    worker.push(0, std::vector<float>(5000, large));
    REQUIRE(are_finite(worker.compressor->kept_back(0).rest));
    REQUIRE(are_finite(worker.compressor->kept_back(0).velocity));
  }
}

TEST_CASE("what is kept back beyond fp16's range is sent in parts, and nothing is lost") {
  Worker worker({2048}, DataType::kFloat16,
                {.encoding = Encoding::kSparse, .density = 1.0F / 2048, .dense_below = 1});
  std::vector<float> gradient(2048, 0.0F);
  gradient[3] = 60'000.0F;
  gradient[5] = -50'016.0F;
  worker.push(0, gradient);
  worker.push(0, gradient);  // of element 5 there is -100,032
  CHECK(worker.pushed[0][5] == -65'504.0F);
  CHECK(worker.compressor->rest(0)[5] == -34'528.0F);
  gradient.assign(2048, 0.0F);
  for (int round = 0; round < 3; ++round) worker.push(0, gradient);
  CHECK(worker.sums[0][3] == 120'000.0F);
  CHECK(worker.sums[0][5] == -100'032.0F);
}

TEST_CASE("a chunk that goes whole has no more than fp16's range of what is kept back") {
  Worker worker({2048}, DataType::kFloat16,
                {.encoding = Encoding::kSparse, .density = 0.9F, .dense_below = 1});
  const std::vector<float> gradient(2048, 60'000.0F);
  worker.push(0, gradient);
  worker.compressor->replied(0, worker.at(0), [](std::uint32_t) { return true; });
  worker.push(0, gradient);
  CHECK(worker.pushed[0][0] == 65'504.0F);
  CHECK(worker.compressor->rest(0)[0] == 120'000.0F - 65'504.0F);
}

TEST_CASE("what was sent for an update that was left out is kept back again, chunk by chunk") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  const DataType type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  const float density = GENERATE(0.01F, 0.9F);  // the latter goes whole
  CAPTURE(name_of(encoding), name_of(type), density);
  std::mt19937 random(49);
  Worker worker({5000}, type, {.encoding = encoding, .density = density, .dense_below = 1});
  std::vector<float> gradients(5000);
  std::vector<float> used(5000);
  for (std::uint32_t round = 0; round < 12; ++round) {
    const auto gradient = whole_numbers(5000, random);
    worker.push(0, gradient);
    const auto is_left_out = [&](std::uint32_t id) { return (round + id) % 3 == 0; };
    for (std::uint32_t id = 0; id < worker.plan.chunks.size(); ++id) {
      const Chunk& chunk = worker.plan.chunks[id];
      for (std::uint32_t i = 0; i < chunk.elements && !is_left_out(id); ++i) {
        used[chunk.arena_offset + i] += worker.pushed[0][chunk.arena_offset + i];
      }
    }
    worker.compressor->replied(0, worker.at(0), is_left_out);
    worker.compressor->replied(0, worker.at(0), is_left_out);  // told twice
    const auto rest = worker.compressor->rest(0);
    float missing = 0.0F;
    for (std::size_t i = 0; i < 5000; ++i) {
      gradients[i] += gradient[i];
      missing = std::max(missing, std::abs(used[i] + rest[i] - gradients[i]));
    }
    REQUIRE(missing <= (encoding == Encoding::kSparse ? 0.0F : 0.01F));
  }
}

TEST_CASE(
    "what made a sum infinite is not kept back again, for it would make the next one so too") {
  Worker worker({2048}, DataType::kFloat32,
                {.encoding = Encoding::kSparse, .density = 1.0F / 2048, .dense_below = 1});
  std::vector<float> gradient(2048, 0.0F);
  gradient[7] = 3e38F;
  worker.push(0, gradient);
  worker.compressor->replied(0, worker.at(0), [](std::uint32_t) { return true; });
  CHECK(worker.compressor->rest(0)[7] == 0.0F);
}

TEST_CASE("what is kept back, given to another compressor, makes the pushes that would have been") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt4);
  std::mt19937 random(50);
  const CompressOptions options{.encoding = encoding,
                                .density = 0.01F,
                                .dense_below = 1000,
                                .momentum = 0.5F,
                                .warm_up_rounds = 6,
                                .selector = Selector::kThresholds};
  Worker one({5000, 10}, DataType::kFloat32, options);
  Worker other({5000, 10}, DataType::kFloat32, options);
  for (int round = 0; round < 4; ++round) one.push(0, whole_numbers(5000, random));
  const KeptBack from = one.compressor->kept_back(0);
  const KeptBack to = other.compressor->kept_back(0);
  std::copy(from.rest.begin(), from.rest.end(), to.rest.begin());
  std::copy(from.velocity.begin(), from.velocity.end(), to.velocity.begin());
  *to.rounds = *from.rounds;
  for (int round = 0; round < 4; ++round) {
    const auto gradient = whole_numbers(5000, random);
    one.push(0, gradient);
    other.push(0, gradient);
    REQUIRE(one.pushed[0] == other.pushed[0]);
  }
  CHECK(one.compressor->kept_back(1).rest.empty());
  CHECK(one.compressor->kept_back(1).rounds == nullptr);
}

std::vector<float> times(float factor, std::vector<float> values) {
  for (float& value : values) value *= factor;
  return values;
}

TEST_CASE("what is kept back follows a loss scale that is a power of two with every bit") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  const float momentum = GENERATE(0.0F, 0.5F);
  CAPTURE(name_of(encoding), momentum);
  std::mt19937 random(51);
  const CompressOptions options{
      .encoding = encoding, .density = 0.01F, .dense_below = 1, .momentum = momentum};
  Worker scaled({5000}, DataType::kFloat32, options, /*votes=*/true);
  Worker plain({5000}, DataType::kFloat32, options);
  CHECK(plain.compressor->kept_back(0).loss_scale == nullptr);
  for (const float scale : {4.0F, 8.0F, 8.0F, 0x1p-10F, 65536.0F, 1.0F}) {
    const auto gradient = whole_numbers(5000, random);
    scaled.compressor->set_loss_scale(scale);
    scaled.push(0, times(scale, gradient));
    plain.push(0, gradient);
    REQUIRE(scaled.pushed[0] == times(scale, plain.pushed[0]));
    CHECK(*scaled.compressor->kept_back(0).loss_scale == scale);
    scaled.compressor->replied(0, scaled.at(0), [](std::uint32_t) { return false; });
  }
}

TEST_CASE("a scale that nobody told before the first push is that of the vote") {
  std::mt19937 random(52);
  Worker worker({5000}, DataType::kFloat32, {.encoding = Encoding::kInt4, .dense_below = 1},
                /*votes=*/true);
  worker.push(0, whole_numbers(5000, random));
  const auto kept = worker.compressor->kept_back(0);
  const std::vector<float> rest(kept.rest.begin(), kept.rest.end());
  worker.compressor->learn_loss_scale(16.0F);
  CHECK(*kept.loss_scale == 16.0F);
  worker.compressor->set_loss_scale(8.0F);
  worker.compressor->replied(0, worker.at(0), [](std::uint32_t) { return false; });
  worker.push(0, std::vector<float>(5000, 0.0F));
  worker.compressor->replied(0, worker.at(0), [](std::uint32_t) { return true; });
  CHECK(std::vector<float>(kept.rest.begin(), kept.rest.end()) == times(0.5F, rest));
}

TEST_CASE("a scale beyond fp32's range leaves what is kept back finite") {
  Worker worker({2048}, DataType::kFloat32,
                {.encoding = Encoding::kSparse, .density = 1.0F / 2048, .dense_below = 1},
                /*votes=*/true);
  worker.compressor->set_loss_scale(1.0F);
  worker.push(0, std::vector<float>(2048, 0x1p120F));
  worker.compressor->set_loss_scale(0x1p24F);
  worker.push(0, std::vector<float>(2048, 1.0F));
  CHECK(are_finite(worker.compressor->rest(0)));
}

TEST_CASE("where workers vote a round that is left out leaves what was kept back as it was") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  const float momentum = GENERATE(0.0F, 0.5F);
  const float wrong = GENERATE(1.0F, std::numeric_limits<float>::infinity());
  CAPTURE(name_of(encoding), momentum, wrong);
  std::mt19937 random(53);
  const CompressOptions options{
      .encoding = encoding, .density = 0.01F, .dense_below = 1, .momentum = momentum};
  Worker worker({5000}, DataType::kFloat32, options, /*votes=*/true);
  Worker spared({5000}, DataType::kFloat32, options, /*votes=*/true);
  for (int round = 0; round < 6; ++round) {
    auto gradient = whole_numbers(5000, random);
    const bool is_left_out = round % 3 == 1;
    if (is_left_out) gradient[4000] *= wrong;
    worker.push(0, gradient);
    worker.compressor->replied(0, worker.at(0), [&](std::uint32_t) { return is_left_out; });
    worker.compressor->replied(0, worker.at(0), [&](std::uint32_t) { return is_left_out; });
    if (is_left_out) continue;
    spared.push(0, gradient);
    REQUIRE(worker.pushed[0] == spared.pushed[0]);
  }
  CHECK(std::ranges::equal(worker.compressor->rest(0), spared.compressor->rest(0)));
}

TEST_CASE("a key of more elements than can be selected from is refused, with a cure") {
  constexpr std::uint64_t kTooMany = std::uint64_t{1} << 32U;
  const CompressOptions sparse{.encoding = Encoding::kSparse};
  CHECK(Compressor::key_fault(kTooMany - 1, sparse).empty());
  CHECK_THAT(Compressor::key_fault(kTooMany, sparse),
             Catch::Matchers::Contains("4294967296 elements") &&
                 Catch::Matchers::Contains("split the key"));
  CHECK(Compressor::key_fault(kTooMany, {.encoding = Encoding::kInt8}).empty());
  CHECK(Compressor::key_fault(kTooMany, {}).empty());
  CHECK(
      Compressor::key_fault(kTooMany, {.encoding = Encoding::kSparse, .dense_below = kTooMany + 1})
          .empty());
}

}  // namespace
}  // namespace phub::compress

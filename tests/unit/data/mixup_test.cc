// Mixed images: which pairs there are, what becomes of their pixels and labels, and that workers
// and threads change nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/data/dataset.h"
#include "worker/data/feed/feeder.h"

namespace phub::data {
namespace {

std::unique_ptr<Images> coloured(std::uint32_t images) {
  auto both =
      make_synthetic({.channels = 3, .height = 6, .width = 5, .classes = 7, .images = images});
  REQUIRE(both);
  return images_of(std::move(both->train));
}

TrainingOptions mixing(std::uint32_t batch) {
  return {.batch = batch, .seed = 5, .shift_pixels = 2, .flip = true, .mixup = 0.4F};
}

Batch load_batch(const Images& images, const TrainingOptions& options, std::uint64_t index,
                 const FeederOptions& feed) {
  const TrainingOrder order(images.images(), options);
  Feeder feeder(images, order, feed);
  Batch batch;
  REQUIRE(feeder.load(index, batch).ok());
  return batch;
}

void append_part(const Batch& part, Batch& all) {
  const auto add = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  add(all.numbers, part.numbers);
  add(all.own_bytes, part.bytes);
  add(all.moves, part.moves);
  add(all.labels, part.labels);
  add(all.second_labels, part.second_labels);
  add(all.shares, part.shares);
}

bool same_mix(const Batch& a, const Batch& b) {
  return a.numbers == b.numbers && a.labels == b.labels && a.second_labels == b.second_labels &&
         a.shares == b.shares && a.own_bytes == b.own_bytes && a.moves.size() == b.moves.size();
}

TEST_CASE("N workers with batch B mix the pairs that one worker with batch N * B mixes") {
  const std::uint32_t workers = GENERATE(1U, 2U, 3U);
  const Form form = GENERATE(Form::kNumbers, Form::kBytes);
  constexpr std::uint32_t kBatch = 6;
  const auto images = coloured(103);
  const FeederOptions feed{.form = form};
  for (std::uint64_t index = 0; index < 12; ++index) {
    const Batch whole = load_batch(*images, mixing(kBatch * workers), index, feed);
    Batch equal, unequal;
    std::uint64_t first = 0;
    for (std::uint32_t i = 0; i < workers; ++i) {
      TrainingOptions options = mixing(kBatch);
      options.workers = workers;
      options.worker_index = i;
      append_part(load_batch(*images, options, index, feed), equal);
      // The first one has two images more, the last one two less.
      const bool is_last = i + 1 == workers;
      options.batch = kBatch + (i == 0 && !is_last ? 2 : 0) - (is_last && i > 0 ? 2 : 0);
      options.part = {.global = std::uint64_t{kBatch} * workers, .first = first};
      first += options.batch;
      append_part(load_batch(*images, options, index, feed), unequal);
    }
    CHECK(same_mix(equal, whole));
    CHECK(same_mix(unequal, whole));
  }
}

TEST_CASE("A run that goes on mixes the pairs that it would have mixed") {
  const auto images = coloured(50);
  TrainingOptions later = mixing(8);
  later.accumulate = 2;
  const TrainingOptions whole = later;
  later.start = {.step = 3, .used = 48};
  for (std::uint64_t index = 6; index < 12; ++index) {
    CHECK(same_mix(load_batch(*images, later, index, {}), load_batch(*images, whole, index, {})));
  }
}

TEST_CASE("Threads take whole pairs, in batches that no eighth divides") {
  const auto images = coloured(61);
  const Form form = GENERATE(Form::kNumbers, Form::kBytes);
  const std::uint32_t threads = GENERATE(1U, 2U, 5U);
  const std::uint32_t batch = GENERATE(2U, 14U, 26U, 40U);
  const TrainingOrder order(images->images(), mixing(batch));
  Feeder alone(*images, order, {.form = form});
  Feeder feeder(*images, order, {.form = form, .threads = threads});
  for (std::uint64_t index = 0; index < 12; ++index) {
    Batch expected, made;
    REQUIRE(alone.load(index, expected).ok());
    REQUIRE(feeder.load(index, made).ok());
    CHECK(same_mix(expected, made));
  }
}

// Moved by its definition, not normalised.
std::vector<int> moved_pixels(const Batch& plain, std::uint32_t slot, const ImageFacts& facts) {
  const auto height = static_cast<int>(facts.height), width = static_cast<int>(facts.width);
  const auto channels = static_cast<int>(facts.channels);
  const std::uint8_t* const pixels = plain.bytes.data() + slot * facts.image_bytes();
  const Move move = plain.moves[slot];
  std::vector<int> out;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const int from_row = row - move.down, shifted = column - move.right;
      const int from = move.flip ? width - 1 - shifted : shifted;
      const bool is_inside = from_row >= 0 && from_row < height && from >= 0 && from < width;
      for (int c = 0; c < channels; ++c) {
        out.push_back(is_inside ? pixels[(from_row * width + from) * channels + c] : 0);
      }
    }
  }
  return out;
}

TEST_CASE("Each image of a pair keeps the larger share of its pixels and of its label") {
  const auto images = coloured(64);
  TrainingOptions unmixed = mixing(16);
  unmixed.mixup = 0.0F;
  const std::size_t elements = images->facts().image_bytes();
  for (std::uint64_t index = 0; index < 8; ++index) {
    const TrainingOrder order(images->images(), mixing(16));
    const Batch plain = load_batch(*images, unmixed, index, {.form = Form::kBytes});
    Batch bytes =
        load_batch(*images, unmixed, index, {.form = Form::kBytes});  // leaves moves behind
    Feeder feeder(*images, order, {.form = Form::kBytes});
    REQUIRE(feeder.load(index, bytes).ok());
    const Batch numbers = load_batch(*images, mixing(16), index, {});
    CHECK(plain.shares.empty());
    CHECK(plain.second_labels.empty());
    CHECK(bytes.labels == plain.labels);
    CHECK(numbers.second_labels == bytes.second_labels);
    for (std::uint32_t slot = 0; slot < 16; ++slot) {
      const std::uint32_t other = slot ^ 1U;
      const double share = bytes.shares[slot];
      CHECK(share == order.share(index, slot & ~1U) / 65536.0);
      CHECK((share >= 0.5 && share <= 1.0));
      CHECK(bytes.second_labels[slot] == plain.labels[other]);
      CHECK(
          (bytes.moves[slot].down == 0 && bytes.moves[slot].right == 0 && !bytes.moves[slot].flip));
      const auto own = moved_pixels(plain, slot, images->facts());
      const auto added = moved_pixels(plain, other, images->facts());
      for (std::size_t i = 0; i < elements; ++i) {
        const int byte = bytes.bytes[slot * elements + i];
        REQUIRE(std::abs(byte - (share * own[i] + (1.0 - share) * added[i])) <= 0.5);
        const std::size_t c = i % images->facts().channels;
        const float scaled = static_cast<float>(byte) / 255.0F;
        REQUIRE(numbers.numbers[slot * elements + i] ==
                (scaled - images->facts().mean[c]) / images->facts().deviation[c]);
      }
    }
  }
}

// A set whose readers tell what they draw a view from.
class Viewed : public Images {
 public:
  Viewed() : whole_(coloured(8)) {}

  const ImageFacts& facts() const override { return whole_->facts(); }
  std::uint64_t images() const override { return whole_->images(); }
  std::uint16_t label(std::uint64_t image) const override { return whole_->label(image); }
  std::unique_ptr<ImageReader> reader() const override {
    return std::make_unique<Reader>(drawn, whole_->reader());
  }

  mutable std::vector<std::uint64_t> drawn;

 private:
  class Reader : public ImageReader {
   public:
    Reader(std::vector<std::uint64_t>& drawn, std::unique_ptr<ImageReader> whole)
        : drawn_(drawn), whole_(std::move(whole)) {}
    Result<Image> read(std::uint64_t image, CounterRandom* random) override {
      drawn_.push_back(random == nullptr ? 0 : random->next());
      return whole_->read(image, random);
    }

   private:
    std::vector<std::uint64_t>& drawn_;
    std::unique_ptr<ImageReader> whole_;
  };

  std::unique_ptr<Images> whole_;
};

TEST_CASE("Mixed images have the views that they have alone") {
  const Viewed images;
  TrainingOptions options = mixing(8);
  const Batch mixed = load_batch(images, options, 1, {});
  const auto views = std::exchange(images.drawn, {});
  options.mixup = 0.0F;
  const Batch plain = load_batch(images, options, 1, {});
  CHECK(views == images.drawn);
  CHECK(mixed.labels == plain.labels);
}

TEST_CASE("Shares have the mean and the variance of the larger one of a beta distribution") {
  const auto [alpha, quarter] = GENERATE(table<float, double>(
      {{0.05F, -1.0}, {0.2F, -1.0}, {0.5F, 1.0 / 3.0}, {1.0F, 0.5}, {4.0F, -1.0}}));
  constexpr int kDraws = 20'000;
  double sum = 0.0, squares = 0.0;
  int below = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const MixShare share = draw_share(alpha, CounterRandom(3, Purpose::kMixup, 2 * i, 0));
    REQUIRE((share >= kWhole / 2 && share <= kWhole));
    const double from_half = share / 65536.0 - 0.5;
    sum += from_half;
    squares += from_half * from_half;
    below += from_half < 0.25 ? 1 : 0;
  }
  const double a = alpha;
  // E|l - 1/2| and E(l - 1/2)^2 of Beta(a, a).
  const double log_beta = 2.0 * std::lgamma(a) - std::lgamma(2.0 * a);
  CHECK(sum / kDraws == Approx(std::exp(-log_beta) / (a * std::pow(4.0, a))).margin(0.008));
  CHECK(squares / kDraws == Approx(0.25 / (2.0 * a + 1.0)).margin(0.004));
  // Between a quarter and three quarters, where that is known.
  if (quarter > 0.0) CHECK(below / double{kDraws} == Approx(quarter).margin(0.02));
}

TEST_CASE("Pairs, seeds and places draw shares of their own") {
  const auto share = [](std::uint64_t seed, std::uint64_t position) {
    return draw_share(1.0F, CounterRandom(seed, Purpose::kMixup, position, 0));
  };
  CHECK(share(1, 0) == share(1, 0));
  CHECK(share(1, 0) != share(1, 2));
  CHECK(share(1, 0) != share(2, 0));
  // Tiny powers are no numbers to divide.
  CHECK(draw_share(1e-6F, CounterRandom(1, Purpose::kMixup, 0, 0)) == kWhole);
}

TEST_CASE("Bytes are rounded to the nearest") {
  std::vector<std::uint8_t> one = {0, 255, 10, 0, 3}, other = {255, 0, 10, 1, 0};
  SECTION("halves") {
    mix_pair(one, other, kWhole / 2);
    CHECK(one == std::vector<std::uint8_t>{128, 128, 10, 1, 2});
    CHECK(other == one);
  }
  SECTION("three quarters") {
    mix_pair(one, other, kWhole / 4 * 3);
    CHECK(one == std::vector<std::uint8_t>{64, 191, 10, 0, 2});
    CHECK(other == std::vector<std::uint8_t>{191, 64, 10, 1, 1});
  }
  SECTION("all of it") {
    const auto before = one;
    mix_pair(one, other, kWhole);
    CHECK(one == before);
  }
}

TEST_CASE("A part of a batch that would cut a pair is refused with the cure") {
  TrainingOptions options = mixing(5);
  const auto refused = [&] { return TrainingOrder::check(100, options).message(); };
  CHECK_THAT(refused(), Catch::Contains("train.batch: 5 images") && Catch::Contains("data.mixup"));
  options.batch = 4;
  CHECK(TrainingOrder::check(100, options).ok());
  options.part = {.global = 16, .first = 3};
  CHECK_THAT(refused(), Catch::Contains("from image 3 on") && Catch::Contains("train.share"));
  options.part = {.global = 15, .first = 2};
  CHECK_THAT(refused(), Catch::Contains("of a batch of 15"));
  options.mixup = 0.0F;
  CHECK(TrainingOrder::check(100, options).ok());
}

TEST_CASE("An evaluation sees images as they are") {
  const EvaluationOrder order(10, 4);
  CHECK_FALSE(order.mixes());
  CHECK_FALSE(TrainingOrder(10, {.batch = 4}).mixes());
}

}  // namespace
}  // namespace phub::data

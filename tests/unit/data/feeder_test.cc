// A feeder's threads make the batches that one thread makes, in any order in which they are asked
// for, and an error of one image is the error of its batch.
#include "worker/data/feed/feeder.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "common/base/affinity.h"
#include "worker/data/dataset.h"

namespace phub::data {
namespace {

constexpr std::uint32_t kImages = 61;

Dataset dataset() {
  auto both = make_synthetic({.channels = 3, .height = 6, .width = 5, .images = kImages});
  REQUIRE(both);
  return std::move(both->train);
}

TrainingOrder order() {
  return TrainingOrder(kImages, {.batch = 9, .seed = 7, .shift_pixels = 1, .flip = true});
}

bool same(const Batch& a, const Batch& b) {
  const auto moves_are_same = [&] {
    return std::equal(a.moves.begin(), a.moves.end(), b.moves.begin(), b.moves.end(),
                      [](const Move& x, const Move& y) {
                        return x.down == y.down && x.right == y.right && x.flip == y.flip;
                      });
  };
  return a.numbers == b.numbers && a.labels == b.labels &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()) &&
         moves_are_same();
}

TEST_CASE("Threads make the batches that one makes, in sequence and by jumps") {
  const auto images = images_of(dataset());
  const TrainingOrder training = order();
  const Form form = GENERATE(Form::kNumbers, Form::kBytes);
  const std::uint32_t threads = GENERATE(1U, 2U, 5U);
  const std::uint32_t ahead = GENERATE(1U, 2U, 4U);
  Feeder alone(*images, training, {.form = form});
  Feeder feeder(*images, training, {.form = form, .threads = threads, .ahead = ahead});
  std::mt19937 random(threads * 10 + ahead);
  std::uint64_t index = 0;
  for (int turn = 0; turn < 60; ++turn) {
    if (random() % 8 == 0) index = random() % 40;
    Batch expected, made;
    REQUIRE(alone.load(index, expected).ok());
    REQUIRE(feeder.load(index, made).ok());
    INFO("batch " << index);
    REQUIRE(same(expected, made));
    ++index;
  }
}

TEST_CASE("The caller's memory gets a batch's bytes, and stays the caller's") {
  const auto images = images_of(dataset());
  const TrainingOrder training = order();
  const std::uint32_t threads = GENERATE(0U, 2U);
  Feeder alone(*images, training, {.form = Form::kBytes});
  Feeder feeder(*images, training, {.form = Form::kBytes, .threads = threads});
  std::vector<std::uint8_t> memory(9 * images->facts().image_bytes());
  Batch own;
  own.bytes = memory;
  for (std::uint64_t index = 0; index < 20; ++index) {
    Batch expected;
    REQUIRE(alone.load(index, expected).ok());
    REQUIRE(feeder.load(index, own).ok());
    REQUIRE(own.bytes.data() == memory.data());
    REQUIRE(std::equal(memory.begin(), memory.end(), expected.bytes.begin()));
    REQUIRE(own.labels == expected.labels);
  }
}

// Keeps the CPUs on which the threads that read may run.
class Placed : public Images {
 public:
  explicit Placed(std::unique_ptr<Images> whole) : whole_(std::move(whole)) {}

  const ImageFacts& facts() const override { return whole_->facts(); }
  std::uint64_t images() const override { return whole_->images(); }
  std::uint16_t label(std::uint64_t image) const override { return whole_->label(image); }
  std::unique_ptr<ImageReader> reader() const override {
    const auto cpus = usable_cpus();
    const std::lock_guard lock(mutex_);
    seen_.push_back(cpus ? *cpus : std::vector<std::uint32_t>());
    return whole_->reader();
  }
  std::vector<std::vector<std::uint32_t>> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::unique_ptr<Images> whole_;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<std::uint32_t>> seen_;
};

TEST_CASE("Threads run on the CPUs that they are told, and the caller anywhere") {
  const auto usable = usable_cpus();
  REQUIRE(usable);
  const Placed images(images_of(dataset()));
  const TrainingOrder training = order();
  const std::vector<std::uint32_t> cpus = {usable->back()};
  {
    Feeder feeder(images, training, {.threads = 2, .cpus = cpus});
    Batch batch;
    REQUIRE(feeder.load(0, batch).ok());
  }
  CHECK(images.seen() == std::vector(2, cpus));
  CHECK(*usable_cpus() == *usable);
}

// One image cannot be read until it is mended.
class Damaged : public Images {
 public:
  explicit Damaged(std::unique_ptr<Images> whole) : whole_(std::move(whole)) {}

  const ImageFacts& facts() const override { return whole_->facts(); }
  std::uint64_t images() const override { return whole_->images(); }
  std::uint16_t label(std::uint64_t image) const override { return whole_->label(image); }
  std::unique_ptr<ImageReader> reader() const override {
    return std::make_unique<Reader>(*this, whole_->reader());
  }
  void mend() { is_mended_ = true; }
  std::uint64_t last_read() const {  // the last image of all
    const std::lock_guard lock(mutex_);
    return last_read_;
  }
  // False: it has not been read in a minute.
  bool wait_for(std::uint64_t image) const {
    std::unique_lock lock(mutex_);
    return read_.wait_for(lock, std::chrono::minutes(1), [&] { return last_read_ >= image; });
  }

  static constexpr std::uint64_t kDamaged = 13;

 private:
  class Reader : public ImageReader {
   public:
    Reader(const Damaged& set, std::unique_ptr<ImageReader> whole)
        : set_(set), whole_(std::move(whole)) {}
    Result<Image> read(std::uint64_t image, CounterRandom* random) override {
      {
        const std::lock_guard lock(set_.mutex_);
        set_.last_read_ = std::max(set_.last_read_, image);
        set_.read_.notify_all();
      }
      if (image == kDamaged && !set_.is_mended_) {
        return Status(Code::kDataLoss, "image 13 is damaged");
      }
      return whole_->read(image, random);
    }

   private:
    const Damaged& set_;
    std::unique_ptr<ImageReader> whole_;
  };

  std::unique_ptr<Images> whole_;
  std::atomic<bool> is_mended_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable read_;
  mutable std::uint64_t last_read_ = 0;
};

TEST_CASE("An image that cannot be read is its batch's error, and the next try may succeed") {
  Damaged images(images_of(dataset()));
  const std::uint32_t threads = GENERATE(0U, 1U, 3U);
  const EvaluationOrder in_order(kImages, 5);
  const std::uint64_t with_damage = Damaged::kDamaged / 5;
  Feeder feeder(images, in_order, {.threads = threads, .ahead = 3});
  for (std::uint64_t index = 0; index < in_order.batches(); ++index) {
    Batch batch;
    const Status status = feeder.load(index, batch);
    INFO("batch " << index << ": " << status.to_string());
    REQUIRE(status.ok() == (index != with_damage));
    if (index != with_damage) continue;
    REQUIRE(status.message() == "image 13 is damaged");
    REQUIRE_FALSE(feeder.load(index, batch).ok());
    images.mend();
    REQUIRE(feeder.load(index, batch).ok());
  }
}

TEST_CASE("From the end on batches are made when they are asked for, and not before") {
  Damaged images(images_of(dataset()));
  images.mend();
  const EvaluationOrder in_order(kImages, 5);
  const std::uint32_t threads = GENERATE(1U, 3U);
  {
    Feeder feeder(images, in_order, {.threads = threads, .ahead = 4, .end = 2});
    for (std::uint64_t index = 0; index < 2; ++index) {
      Batch batch;
      REQUIRE(feeder.load(index, batch).ok());
    }
  }
  CHECK(images.last_read() == 9);
  Feeder feeder(images, in_order, {.threads = threads, .ahead = 4, .end = 2});
  Batch batch;
  REQUIRE(feeder.load(1, batch).ok());
  REQUIRE(feeder.load(2, batch).ok());
  CHECK(images.last_read() == 14);
}

TEST_CASE("A feeder that is held begins no other batch, until it may go on or one is asked for") {
  Damaged images(images_of(dataset()));
  images.mend();
  const EvaluationOrder in_order(kImages, 5);
  const std::uint32_t threads = GENERATE(1U, 3U);
  const bool is_let_go = GENERATE(false, true);
  Batch batch;
  {
    Feeder feeder(images, in_order, {.threads = threads, .ahead = 2});
    REQUIRE(feeder.load(0, batch).ok());
    feeder.hold();  // the ring has room for batches 1 and 2
    REQUIRE(feeder.load(1, batch).ok());
    REQUIRE(feeder.load(2, batch).ok());
  }
  CHECK(images.last_read() == 14);
  Feeder feeder(images, in_order, {.threads = threads, .ahead = 2});
  REQUIRE(feeder.load(0, batch).ok());
  feeder.hold();
  REQUIRE(feeder.load(1, batch).ok());
  if (is_let_go) {
    feeder.go_on();
    CHECK(images.wait_for(15));
    return;
  }
  REQUIRE(feeder.load(2, batch).ok());
  REQUIRE(feeder.load(3, batch).ok());
}

TEST_CASE("A feeder that nobody asks ends, and one that is asked once does") {
  const auto images = images_of(dataset());
  const TrainingOrder training = order();
  const bool is_asked = GENERATE(false, true);
  for (int turn = 0; turn < 50; ++turn) {
    Feeder feeder(*images, training, {.threads = 3, .ahead = 2});
    Batch batch;
    if (is_asked) REQUIRE(feeder.load(static_cast<std::uint64_t>(turn), batch).ok());
  }
}

}  // namespace
}  // namespace phub::data

// Where batches come over the exchange's links, none is begun while a step waits for parameters.
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/unit/train/over_local.h"
#include "worker/data/dataset.h"
#include "worker/train/backends.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/trainer.h"

namespace phub::train {
namespace {

constexpr std::uint64_t kImages = 64;
constexpr std::uint32_t kBatch = 4, kAhead = 2;

// Counts reads.
class Counted : public data::Images {
 public:
  explicit Counted(std::unique_ptr<data::Images> whole) : whole_(std::move(whole)) {}

  const data::ImageFacts& facts() const override { return whole_->facts(); }
  std::uint64_t images() const override { return whole_->images(); }
  std::uint16_t label(std::uint64_t image) const override { return whole_->label(image); }
  std::unique_ptr<data::ImageReader> reader() const override {
    return std::make_unique<Reader>(*this, whole_->reader());
  }

  std::uint64_t reads_begun() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  // False: they have not begun in a minute.
  bool wait_for(std::uint64_t reads) const {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, std::chrono::minutes(1), [&] { return reads_ >= reads; });
  }

 private:
  class Reader : public data::ImageReader {
   public:
    Reader(const Counted& set, std::unique_ptr<data::ImageReader> whole)
        : set_(set), whole_(std::move(whole)) {}
    Result<data::Image> read(std::uint64_t image, CounterRandom* random) override {
      {
        const std::lock_guard lock(set_.mutex_);
        ++set_.reads_;
        set_.more_.notify_all();
      }
      return whole_->read(image, random);
    }

   private:
    const Counted& set_;
    std::unique_ptr<data::ImageReader> whole_;
  };

  std::unique_ptr<data::Images> whole_;
  mutable std::mutex mutex_;
  mutable std::condition_variable more_;
  mutable std::uint64_t reads_ = 0;
};

// Looks at the reads where a step waits, and where it has gradients.
class Watching : public testing::OverLocal {
 public:
  Watching(const std::vector<KeySpec>& keys, const Counted& images)
      : OverLocal(keys, {}), images_(images) {}

  void begin(std::uint64_t step) { step_ = step; }
  Status wait(KeyId key) override {
    // Nothing holds the first batches of all.
    if (step_ > 0) CHECK(images_.wait_for(reads_of(step_ + kAhead)));
    if (step_ > 0) CHECK(images_.reads_begun() == reads_of(step_ + kAhead));
    return OverLocal::wait(key);
  }
  Status push(KeyId key) override {
    CHECK(images_.wait_for(reads_of(step_ + kAhead + 1)));
    return OverLocal::push(key);
  }

 private:
  static std::uint64_t reads_of(std::uint64_t batches) {
    return std::min(batches * kBatch, kImages);
  }

  const Counted& images_;
  std::uint64_t step_ = 0;
};

TEST_CASE("Batches that yield are begun when the parameters of a step have come") {
  auto both = data::make_synthetic({.channels = 1, .height = 4, .width = 4, .images = kImages});
  REQUIRE(both);
  const Counted images(data::images_of(std::move(both->train)));
  nn::Graph graph({.channels = 1, .height = 4, .width = 4});
  graph.add("fc", nn::InnerProduct{.outputs = images.facts().classes}, {0});
  const auto network = make_executor(graph, {.backend = BackendKind::kReference, .batch = kBatch});
  REQUIRE(network);
  Watching exchange(keys_of(**network), images);
  REQUIRE(bind(**network, exchange).ok());
  fill_initial(**network, 1, exchange);
  REQUIRE(exchange.initialise().ok());
  const data::TrainingOrder order(kImages, {.batch = kBatch});
  Trainer trainer({.network = **network,
                   .exchange = exchange,
                   .images = images,
                   .order = order,
                   .test = images},
                  {.schedule = {.learning_rate = 0.001F},
                   .feed = {.threads = 2, .ahead = kAhead, .yields = true}});
  for (std::uint64_t step = 0; step < kImages / kBatch; ++step) {
    exchange.begin(step);
    const auto report = trainer.step(step);
    INFO("step " << step);
    REQUIRE(report);
  }
  REQUIRE(trainer.wait_all().ok());
}

}  // namespace
}  // namespace phub::train

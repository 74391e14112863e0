// Decoded images that are kept: a network sees the same, whatever is kept.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "worker/data/cache/folder.h"
#include "worker/data/cache/open.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/images/png_writer.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kPictures = 12;
using Pixels = std::vector<std::uint8_t>;

// Pictures of several sizes and of one channel or three; number 5 is damaged.
class Pictures : public SampleSet {
 public:
  explicit Pictures(const TemporaryDirectory& directory) {
    for (std::uint32_t i = 0; i < kPictures; ++i) {
      const auto path = directory.path / (std::to_string(i) + ".png");
      const ImageSize size{20 + 7 * i, 90 - 5 * i};
      const std::uint32_t channels = i % 4 == 3 ? 1 : 3;
      Pixels pixels(size.pixels() * channels);
      for (std::size_t at = 0; at < pixels.size(); ++at) {
        pixels[at] = static_cast<std::uint8_t>(at * (i + 3) / 5 + at / 97);
      }
      REQUIRE(write_png(path, size, channels, pixels).ok());
      std::ifstream file(path, std::ios::binary);
      files_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    files_[5].resize(files_[5].size() / 2);
  }

  std::uint64_t samples() const override { return files_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::uint16_t label(std::uint64_t) const override { return 0; }
  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>&) const override {
    return std::span<const std::uint8_t>(files_[sample]);
  }
  std::string name(std::uint64_t sample) const override { return std::to_string(sample) + ".png"; }

 private:
  std::vector<std::string> classes_ = {"all"};
  std::vector<Pixels> files_;
};

struct Kept {
  std::uint64_t bytes = 1U << 26U;
  std::uint32_t side = 0;
};

std::unique_ptr<Images> pictures(const TemporaryDirectory& directory,
                                 const TemporaryDirectory* folder, std::uint32_t channels,
                                 Kept kept = {}) {
  EncodedOptions options{.facts = {.channels = channels,
                                   .height = 16,
                                   .width = 16,
                                   .mean = std::vector<float>(channels, 0.5F),
                                   .deviation = std::vector<float>(channels, 1.0F)},
                         .view = {.min_area = 0.2, .brightness = 0.3F, .saturation = 0.2F},
                         .damaged_max = 1};
  auto set = std::make_unique<Pictures>(directory);
  if (folder != nullptr) {
    auto store = cache::SampleStore::open(
        {.samples = kPictures, .number = channels + kept.side, .content = "decoded", .about = ""},
        {.folder = folder->path, .bytes_max = kept.bytes, .field = "data.cache.memory_mib"}, {});
    REQUIRE(store);
    options.decoded = std::make_shared<DecodedImages>(std::move(*store), channels, kept.side);
  }
  return encoded_images(std::move(set), std::move(options));
}

// What all images look like, in training and in a test.
std::vector<Pixels> views(const Images& images, std::uint64_t epoch) {
  std::vector<Pixels> all;
  const auto reader = images.reader();
  for (std::uint64_t image = 0; image < images.images(); ++image) {
    for (const bool is_training : {true, false}) {
      CounterRandom random(3, Purpose::kView, epoch, image);
      const auto read = reader->read(image, is_training ? &random : nullptr);
      REQUIRE(read);
      all.emplace_back(read->pixels.begin(), read->pixels.end());
    }
  }
  return all;
}

TEST_CASE("a network sees the same images with kept ones as without") {
  const TemporaryDirectory directory, folder;
  const std::uint32_t channels = GENERATE(1U, 3U);
  const auto plain = pictures(directory, nullptr, channels);
  const auto kept = pictures(directory, &folder, channels);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    CHECK(views(*kept, epoch) == views(*plain, epoch));
  }
  // Two views of each image and epoch. The damaged one was never kept, and its neighbour stands in.
  const ReadCounts reads = kept->reads();
  CHECK(reads.memory == 2 * 3 * kPictures - (kPictures - 1));
  CHECK(reads.source == kPictures - 1 + 2 * 3);
  CHECK(plain->reads().all() == 0);
}

TEST_CASE("images that have no room are seen as those that are kept") {
  const TemporaryDirectory directory, large, small;
  const Kept shrunk{.side = 24};
  const auto all = pictures(directory, &large, 3, shrunk);
  const auto some = pictures(directory, &small, 3, {.bytes = 10'000, .side = 24});
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    CHECK(views(*all, epoch) == views(*some, epoch));
  }
  CHECK(some->reads().source > all->reads().source);
  CHECK(cache::bytes_in(small.path) <= 10'000);
}

TEST_CASE("another worker of the host finds what one has decoded") {
  const TemporaryDirectory directory, folder;
  const auto first = pictures(directory, &folder, 3);
  const auto views_of_first = views(*first, 0);
  const auto second = pictures(directory, &folder, 3);
  CHECK(views(*second, 0) == views_of_first);
  CHECK(second->reads().memory == 2 * kPictures);
}

TEST_CASE("images that are not to be kept are seen as those that are") {
  const TemporaryDirectory directory, folder;
  const auto kept = pictures(directory, &folder, 3, {.side = 24});
  EncodedOptions options{.facts = kept->facts(),
                         .view = {.min_area = 0.2, .brightness = 0.3F, .saturation = 0.2F},
                         .damaged_max = 1};
  options.decoded = std::make_shared<DecodedImages>(nullptr, 3, 24);
  const auto seen = encoded_images(std::make_unique<Pictures>(directory), std::move(options));
  CHECK(views(*seen, 0) == views(*kept, 0));
  CHECK(views(*seen, 1) == views(*kept, 1));
}

TEST_CASE("images are kept no larger than they are asked to be") {
  const TemporaryDirectory folder;
  auto store =
      cache::SampleStore::open({.samples = 1, .number = 1, .content = "c", .about = ""},
                               {.folder = folder.path, .bytes_max = 1U << 20U, .field = ""}, {});
  REQUIRE(store);
  const DecodedImages images(std::move(*store), 3, 256);
  const auto size_for = [&](ImageSize size) { return images.size_for(size).value(); };
  CHECK(size_for({500, 375}).height == 256);
  CHECK(size_for({500, 375}).width == 341);
  CHECK(size_for({200, 4000}).height == 4000);
  CHECK(size_for({256, 256}).width == 256);
  CHECK_FALSE(images.size_for({200, 4'000'000}));
}

}  // namespace
}  // namespace phub::data

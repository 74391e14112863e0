// A file that was read before it was complete: its copies are replaced when they show no image.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "worker/data/cache/cached_set.h"
#include "worker/data/cache/folder.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/images/png_writer.h"
#include "worker/data/spread/spread_set.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kFiles = 6;
constexpr std::uint64_t kLate = 3;  // is copied while it is read first

// What has become of the source.
struct Source {
  bool is_complete = false;  // the late file too
  bool is_closed = false;    // nothing can be read
  std::vector<int> reads = std::vector<int>(kFiles);
};

// Grey images of one value each: 10 times their number.
class Files : public SampleSet {
 public:
  Files(const TemporaryDirectory& directory, Source& source) : source_(source) {
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      const auto path = directory.path / (std::to_string(i) + ".png");
      const std::vector<std::uint8_t> pixels(12 * 8, static_cast<std::uint8_t>(10 * i));
      REQUIRE(write_png(path, {12, 8}, 1, pixels).ok());
      std::ifstream file(path, std::ios::binary);
      files_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }

  std::uint64_t samples() const override { return kFiles; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::uint16_t label(std::uint64_t) const override { return 0; }
  std::string name(std::uint64_t sample) const override { return std::to_string(sample) + ".png"; }
  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override {
    if (source_.is_closed) return Status(Code::kUnavailable, "it is closed");
    ++source_.reads[sample];
    buffer = files_[sample];
    if (sample == kLate && !source_.is_complete) buffer.resize(buffer.size() / 2);
    return std::span<const std::uint8_t>(buffer);
  }

 private:
  Source& source_;
  std::vector<std::string> classes_ = {"all"};
  std::vector<std::vector<std::uint8_t>> files_;
};

std::unique_ptr<SampleSet> cached(const TemporaryDirectory& directory, Source& source,
                                  const TemporaryDirectory& folder) {
  auto store = cache::SampleStore::open(
      {.samples = kFiles, .number = 1, .content = "encoded", .about = ""},
      {.folder = folder.path, .bytes_max = 1U << 20U, .field = "data.cache.path"}, {});
  REQUIRE(store);
  return cache::cached_set(std::make_unique<Files>(directory, source), std::move(*store));
}

std::unique_ptr<SampleSet> spread(std::unique_ptr<SampleSet> source) {
  auto set = SpreadSet::create(std::move(source), {.memory_bytes = 1U << 20U});
  REQUIRE(set);
  REQUIRE((*set)->begin({}, {}).ok());
  return std::move(*set);
}

std::unique_ptr<Images> images_of(std::unique_ptr<SampleSet> set) {
  return encoded_images(
      std::move(set),
      {.facts = {.channels = 1, .height = 4, .width = 4, .mean = {0.5F}, .deviation = {1}},
       .damaged_max = 1});
}

// The grey that is shown for each file.
std::vector<int> greys(const Images& images) {
  std::vector<int> all;
  const auto reader = images.reader();
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    const auto image = reader->read(i, nullptr);
    REQUIRE(image);
    all.push_back(image->pixels[0]);
  }
  return all;
}

const std::vector<int> kAllGreys = {0, 10, 20, 30, 40, 50};
const std::vector<int> kWithoutLate = {0, 10, 20, 40, 40, 50};

TEST_CASE("A copy on a disk of a file that was not complete is replaced") {
  const TemporaryDirectory directory, folder;
  Source source;
  {
    const auto images = images_of(cached(directory, source, folder));
    CHECK(greys(*images) == kWithoutLate);
    source.is_complete = true;
    CHECK(greys(*images) == kAllGreys);
    // The copies are read from now on, by later runs too.
    source.is_closed = true;
    CHECK(greys(*images) == kAllGreys);
  }
  CHECK(greys(*images_of(cached(directory, source, folder))) == kAllGreys);
}

TEST_CASE("A later run finds that the source has become complete") {
  const TemporaryDirectory directory, folder;
  Source source;
  CHECK(greys(*images_of(cached(directory, source, folder))) == kWithoutLate);
  source.is_complete = true;
  CHECK(greys(*images_of(cached(directory, source, folder))) == kAllGreys);
}

TEST_CASE("A file that stays damaged is read once more in each epoch, and copied once") {
  const TemporaryDirectory directory, folder;
  Source source;
  const auto images = images_of(cached(directory, source, folder));
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(greys(*images) == kWithoutLate);
  CHECK(source.reads[kLate] == 1 + 3);
  CHECK(source.reads[kLate + 1] == 1);
  CHECK(cache::look_at(cache::stores_in(folder.path).at(0)).kept == kFiles);
}

TEST_CASE("A damaged copy is a damaged image where the source cannot be reached") {
  const TemporaryDirectory directory, folder;
  Source source;
  const auto images = images_of(cached(directory, source, folder));
  CHECK(greys(*images) == kWithoutLate);
  source.is_closed = true;
  CHECK(greys(*images) == kWithoutLate);
}

TEST_CASE("A copy in memory of a file that was not complete is replaced, and one below it too") {
  const TemporaryDirectory directory, folder;
  Source source;
  const bool has_disk = GENERATE(false, true);
  auto below = has_disk ? cached(directory, source, folder)
                        : std::unique_ptr<SampleSet>(std::make_unique<Files>(directory, source));
  const auto images = images_of(spread(std::move(below)));
  CHECK(greys(*images) == kWithoutLate);
  source.is_complete = true;
  CHECK(greys(*images) == kAllGreys);
  source.is_closed = true;
  CHECK(greys(*images) == kAllGreys);
  if (has_disk) CHECK(greys(*images_of(cached(directory, source, folder))) == kAllGreys);
}

}  // namespace
}  // namespace phub::data

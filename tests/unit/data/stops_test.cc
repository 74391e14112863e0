// Runs that stop at random moments and go on with other members, threads and formats of the same
// set.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/data/formats/example_bytes.h"
#include "tests/unit/data/formats/sample_files.h"
#include "tests/unit/data/formats/tar_bytes.h"
#include "tests/unit/data/random_members.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/encoded/open_set.h"
#include "worker/data/feed/feeder.h"
#include "worker/data/formats/packed/pack_writer.h"
#include "worker/data/images/png_writer.h"

namespace phub::data {
namespace {

// A set in each format, whose images have a class each: the label is the image.
class Sets {
 public:
  static constexpr std::uint32_t kImages = 23;
  static constexpr DataFormat kFormats[] = {DataFormat::kFolder, DataFormat::kWebDataset,
                                            DataFormat::kTfRecord, DataFormat::kPacked};

  Sets() {
    const auto file = directory_.path / "image.png";
    REQUIRE(write_png(file, {4, 4}, 1, std::vector<std::uint8_t>(16, 90)).ok());
    const std::string image = directory_.read("image.png");
    std::string tar, records;
    std::vector<std::string> classes;
    for (std::uint32_t i = 0; i < kImages; ++i) {
      const std::string number = std::to_string(100 + i);
      classes.push_back(number);
      write_file(directory_.path / "folder/train" / number / "x.png", image);
      tar += tar_member(number + ".png", image) + tar_member(number + ".cls", std::to_string(i));
      records += tf_record(image_example(image, i));
    }
    write_file(directory_.path / "tar/train-0.tar", tar + tar_end());
    write_file(directory_.path / "records/train-00000-of-00001", records);
    pack(classes, {image.begin(), image.end()});
  }

  std::unique_ptr<Images> open(DataFormat format) const {
    const char* const names[] = {"folder", "tar", "records", "packed"};
    const auto place = std::find(std::begin(kFormats), std::end(kFormats), format);
    auto set = open_set(format, directory_.path / names[place - kFormats], Split::kTrain);
    INFO(set.error().message());
    REQUIRE(set);
    REQUIRE((*set)->samples() == kImages);
    return encoded_images(
        std::move(*set),
        {.facts = {.channels = 1, .height = 4, .width = 4, .mean = {0}, .deviation = {1}}});
  }

 private:
  void pack(const std::vector<std::string>& classes, const std::vector<std::uint8_t>& image) {
    std::filesystem::create_directories(directory_.path / "packed");
    auto writer = PackWriter::create(directory_.path / "packed/train.phub", {.classes = classes});
    REQUIRE(writer);
    for (std::uint16_t i = 0; i < kImages; ++i) {
      REQUIRE((*writer)->append(image, i, std::to_string(i)).ok());
    }
    REQUIRE((*writer)->finish().ok());
  }

  TemporaryDirectory directory_;
};

TEST_CASE("Runs that stop at random moments use each remaining sample once, from every format") {
  const Sets sets;
  std::vector<std::unique_ptr<Images>> opened;
  for (const DataFormat format : Sets::kFormats) opened.push_back(sets.open(format));
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    RunPlace place;
    std::vector<std::uint16_t> seen;
    while (seen.size() < 2 * Sets::kImages) {
      const Members now = members(random, Sets::kImages, place);
      const Images& images = *opened[between(random, 0, 3)];
      const std::uint32_t steps = between(random, 1, 3);
      const std::uint32_t threads = between(random, 0, 2);
      const std::uint64_t batches = std::uint64_t{steps} * now.workers[0].accumulate;
      for (const TrainingOptions& options : now.workers) {
        const TrainingOrder order(images.images(), options);
        Feeder feeder(images, order, {.threads = threads, .ahead = between(random, 1, 3)});
        Batch batch;
        for (std::uint64_t i = 0; i < batches; ++i) {
          INFO("batch " << i);
          REQUIRE(feeder.load(place.step * options.accumulate + i, batch).ok());
          seen.insert(seen.end(), batch.labels.begin(), batch.labels.end());
        }
      }
      place = {place.step + steps,
               TrainingOrder(images.images(), now.workers[0]).used(place.step + steps)};
      REQUIRE(seen.size() == place.used);
      // Whole epochs have each sample as often, whichever worker had it; the begun one at most
      // once.
      const std::uint64_t whole = place.used / Sets::kImages;
      std::vector<std::uint64_t> times(Sets::kImages, 0);
      for (const std::uint16_t label : seen) ++times[label];
      REQUIRE(*std::min_element(times.begin(), times.end()) >= whole);
      REQUIRE(*std::max_element(times.begin(), times.end()) <= whole + 1);
    }
  }
}

}  // namespace
}  // namespace phub::data

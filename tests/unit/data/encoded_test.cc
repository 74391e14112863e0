// Encoded images as a network takes them: which part of each, and what becomes of damaged ones.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/images/png_writer.h"

namespace phub::data {
namespace {

constexpr ImageSize kOut{224, 224};

TEST_CASE("A test sees the centre, in the shape of what the network takes") {
  const Window square = test_window({.test = 0.5}, {400, 200}, kOut);
  CHECK(square.width == Approx(100));
  CHECK(square.height == Approx(100));
  CHECK(square.left == Approx(150));
  CHECK(square.top == Approx(50));
  const Window wide = test_window({.test = 1.0}, {100, 400}, {200, 100});
  CHECK(wide.width == Approx(100));
  CHECK(wide.height == Approx(50));
  CHECK(wide.top == Approx(175));
}

TEST_CASE("A training sees parts within the image, with the areas and the shapes that are asked") {
  const ViewOptions options{.min_area = 0.2, .stretch = 1.5};
  const ImageSize image = GENERATE(ImageSize{300, 200}, ImageSize{97, 512});
  double least = 1.0, most = 0.0, narrow = 10.0, broad = 0.0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    CounterRandom random(1, Purpose::kView, 0, i);
    const Window window = training_window(options, image, kOut, random);
    REQUIRE(window.left >= 0);
    REQUIRE(window.top >= 0);
    REQUIRE(window.left + window.width <= image.width);
    REQUIRE(window.top + window.height <= image.height);
    const double area = window.width * window.height / static_cast<double>(image.pixels());
    least = std::min(least, area);
    most = std::max(most, area);
    narrow = std::min(narrow, window.width / window.height);
    broad = std::max(broad, window.width / window.height);
  }
  CHECK(narrow == Approx(1 / 1.5).margin(0.03));
  if (image.width == 97) return;  // too narrow for broad parts
  CHECK(least == Approx(0.2).margin(0.02));
  CHECK(most > 0.8);
  CHECK(broad == Approx(1.5).margin(0.06));
}

TEST_CASE("With the whole area a training sees what a test does") {
  CounterRandom random(1, Purpose::kView, 0, 0);
  const Window window = training_window({.min_area = 1.0}, {300, 200}, kOut, random);
  CHECK(window.width == Approx(175));
  CHECK(window.left == Approx(62.5));
}

TEST_CASE("Changes of colour are those of the factors, and none leave bytes as they are") {
  std::vector<std::uint8_t> pixels = {10, 100, 200, 40, 50, 60};
  const std::vector<std::uint8_t> before = pixels;
  CounterRandom none(1, Purpose::kView, 0, 0);
  change_colours({}, 3, pixels, none);
  CHECK(pixels == before);
  std::set<std::vector<std::uint8_t>> seen;
  for (std::uint64_t i = 0; i < 50; ++i) {
    pixels = before;
    CounterRandom random(1, Purpose::kView, 0, i);
    change_colours({.brightness = 0.4F, .contrast = 0.4F, .saturation = 0.4F}, 3, pixels, random);
    seen.insert(pixels);
  }
  CHECK(seen.size() == 50);
  // Without saturation all channels of a pixel are its grey.
  pixels = {90, 90, 90, 20, 20, 20};
  CounterRandom random(1, Purpose::kView, 0, 3);
  change_colours({.saturation = 1.0F}, 3, pixels, random);
  CHECK(pixels == std::vector<std::uint8_t>{90, 90, 90, 20, 20, 20});
}

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Grey images of one value each: 10 times their number. Some are cut in the middle.
class Greys : public SampleSet {
 public:
  Greys(const TemporaryDirectory& directory, std::set<std::uint64_t> damaged)
      : damaged_(std::move(damaged)) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      const auto path = directory.path / (std::to_string(i) + ".png");
      const std::vector<std::uint8_t> pixels(12 * 8, static_cast<std::uint8_t>(10 * i));
      REQUIRE(write_png(path, {12, 8}, 1, pixels).ok());
      files_.push_back(bytes_of(path));
      if (damaged_.contains(i)) files_.back().resize(files_.back().size() / 2);
    }
  }

  std::uint64_t samples() const override { return files_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::uint16_t label(std::uint64_t sample) const override {
    return static_cast<std::uint16_t>(sample % 2);
  }
  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>&) const override {
    return std::span<const std::uint8_t>(files_[sample]);
  }
  std::string name(std::uint64_t sample) const override { return std::to_string(sample) + ".png"; }

 private:
  std::vector<std::string> classes_ = {"even", "odd"};
  std::set<std::uint64_t> damaged_;
  std::vector<std::vector<std::uint8_t>> files_;
};

EncodedOptions options(std::uint64_t damaged_max, std::vector<std::string>& notes) {
  return {.facts = {.channels = 3,
                    .height = 4,
                    .width = 4,
                    .mean = {0.5F, 0.5F, 0.5F},
                    .deviation = {1, 1, 1}},
          .damaged_max = damaged_max,
          .note = [&](std::string_view note) { notes.emplace_back(note); }};
}

TEST_CASE("Images have the pixels and the labels of their files, as many channels as asked") {
  const TemporaryDirectory directory;
  std::vector<std::string> notes;
  const auto images = encoded_images(std::make_unique<Greys>(directory, std::set<std::uint64_t>{}),
                                     options(0, notes));
  CHECK(images->facts().classes == 2);
  CHECK(images->class_name(1) == "odd");
  const auto reader = images->reader();
  for (std::uint64_t i = 0; i < images->images(); ++i) {
    CounterRandom random(1, Purpose::kView, 0, i);
    const auto image = reader->read(i, i % 3 == 0 ? nullptr : &random);
    REQUIRE(image);
    CHECK(image->label == i % 2);
    CHECK(std::vector<std::uint8_t>(image->pixels.begin(), image->pixels.end()) ==
          std::vector<std::uint8_t>(4 * 4 * 3, static_cast<std::uint8_t>(10 * i)));
  }
  CHECK(notes.empty());
}

TEST_CASE("A damaged image is named once, and the next good one takes its place") {
  const TemporaryDirectory directory;
  std::vector<std::string> notes;
  const auto images = encoded_images(
      std::make_unique<Greys>(directory, std::set<std::uint64_t>{3, 4, 9}), options(3, notes));
  const auto reader = images->reader();
  for (int epoch = 0; epoch < 2; ++epoch) {
    CHECK(reader->read(3, nullptr).value().pixels[0] == 50);
    CHECK(reader->read(3, nullptr).value().label == 1);
    CHECK(reader->read(9, nullptr).value().pixels[0] == 0);
  }
  REQUIRE(notes.size() == 3);
  CHECK_THAT(notes[0], Catch::StartsWith("3.png: ") && Catch::Contains("takes its place"));
}

TEST_CASE("More damaged images than may be are an error with the figures") {
  const TemporaryDirectory directory;
  std::vector<std::string> notes;
  const auto images = encoded_images(
      std::make_unique<Greys>(directory, std::set<std::uint64_t>{3, 4}), options(1, notes));
  const auto reader = images->reader();
  const auto image = reader->read(3, nullptr);
  REQUIRE_FALSE(image);
  CHECK(image.error().code() == Code::kDataLoss);
  CHECK_THAT(image.error().message(),
             Catch::StartsWith("4.png: ") && Catch::Contains("data.damaged_max (1)"));
  CHECK(notes.size() == 1);
}

// A set whose server is gone, or that is not the one to read.
class OutOfReach : public Greys {
 public:
  OutOfReach(const TemporaryDirectory& directory, Code code) : Greys(directory, {}), code_(code) {}
  Result<std::span<const std::uint8_t>> read(std::uint64_t,
                                             std::vector<std::uint8_t>&) const override {
    return Status(code_, "no answer");
  }

 private:
  const Code code_;
};

TEST_CASE("No image takes the place of one whose server cannot be reached, or whose set is wrong") {
  const Code code = GENERATE(Code::kUnavailable, Code::kInvalidArgument);
  const TemporaryDirectory directory;
  std::vector<std::string> notes;
  const auto images =
      encoded_images(std::make_unique<OutOfReach>(directory, code), options(100, notes));
  const auto image = images->reader()->read(3, nullptr);
  REQUIRE_FALSE(image);
  CHECK(image.error().code() == code);
  CHECK(notes.empty());
}

TEST_CASE("Where nothing can be read, that is said and nobody searches for ever") {
  const TemporaryDirectory directory;
  std::vector<std::string> notes;
  const auto images = encoded_images(
      std::make_unique<Greys>(directory, std::set<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
      options(100, notes));
  const auto image = images->reader()->read(0, nullptr);
  REQUIRE_FALSE(image);
  CHECK(notes.size() == 10);
}

}  // namespace
}  // namespace phub::data

// Trainings whose first epochs have smaller images: they end alike, wherever they were stopped.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/images/png_writer.h"
#include "worker/train/session_data.h"
#include "worker/train/stages/stages.h"

namespace phub::train {
namespace {

using Catch::Matchers::Contains;

constexpr int kTrain = 21, kTest = 8;  // images of each of two classes

void write_pictures(const std::filesystem::path& folder) {
  for (const auto& [split, images] : {std::pair{"train", kTrain}, std::pair{"test", kTest}}) {
    for (int label = 0; label < 2; ++label) {
      const auto place = folder / split / ("class" + std::to_string(label));
      std::filesystem::create_directories(place);
      for (int i = 0; i < images; ++i) {
        const data::ImageSize size{static_cast<std::uint32_t>(30 + i),
                                   static_cast<std::uint32_t>(36 - label)};
        std::vector<std::uint8_t> pixels(size.pixels() * 3);
        for (std::size_t at = 0; at < pixels.size(); ++at) {
          const std::size_t bright = at % 3 == static_cast<std::size_t>(label) ? 128 : 0;
          pixels[at] =
              static_cast<std::uint8_t>(bright + (at * 7 + static_cast<std::size_t>(i) * 13) % 100);
        }
        REQUIRE(data::write_png(place / (std::to_string(i) + ".png"), size, 3, pixels).ok());
      }
    }
  }
}

nn::Graph network() {
  nn::Graph graph({.channels = 3, .height = 24, .width = 24});
  graph.add("conv", nn::Convolution{.channels = 4, .window = {.kernel = 3, .padding = 1}}, {0});
  graph.add("norm", nn::BatchNorm{.relu = true}, {1});
  graph.add("pool", nn::GlobalAveragePool{}, {2});
  graph.add("fc", nn::InnerProduct{.outputs = 2}, {3});
  return graph;
}

// 42 images are 7 steps; four epochs, of 12, 12, 16 and 24 pixels.
SessionOptions session(const TemporaryDirectory& directory) {
  SessionOptions options = testing::small_session();
  options.model = "small";
  options.graph = network();
  options.executor.batch = 6;
  options.epochs = 4;
  options.data = {.format = DataFormat::kFolder,
                  .path = directory.path / "pictures",
                  .shift_pixels = 1,
                  .flip = true,
                  .view = {.min_area = 0.3, .brightness = 0.2F},
                  .progressive = {{.side = 12, .end_epoch = 2}, {.side = 16, .end_epoch = 3}}};
  return options;
}

std::string parameters_of(const TemporaryDirectory& directory, SessionOptions options,
                          const std::string& name, std::uint64_t stop_after = ~0ULL) {
  options.checkpoint.path = directory.path / name;
  const auto result = testing::run(options, RuleKind::kMomentum, stop_after);
  INFO((result ? std::string() : result.error().message()));
  REQUIRE(result);
  return directory.read(name);
}

TEST_CASE("A training in stages that was stopped anywhere ends like one that was not") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  SessionOptions options = session(directory);
  const std::string whole = parameters_of(directory, options, "whole");
  for (const std::uint64_t stop : {3U, 7U, 14U, 16U, 21U, 25U}) {
    INFO("stopped after step " << stop);
    options.checkpoint.resume.clear();
    parameters_of(directory, options, "half", stop);
    options.checkpoint.resume = directory.path / "half";
    CHECK(parameters_of(directory, options, "joined") == whole);
  }
}

TEST_CASE("A run that goes on with another batch has the size of the epoch where it goes on") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  SessionOptions options = session(directory);
  parameters_of(directory, options, "half", 16);  // the third epoch has begun
  options.checkpoint.resume = directory.path / "half";
  options.executor.batch = 4;
  options.data.feed = {.threads = 2, .ahead = 4};
  options.report.print = ReportOptions::Print::kAlways;
  std::vector<std::string> notes;
  options.note = [&](std::string_view note) { notes.emplace_back(note); };
  parameters_of(directory, options, "joined");
  CHECK(notes ==
        std::vector<std::string>{"data.progressive: images of 16 x 16 pixels from epoch 3 on",
                                 "data.progressive: images of 24 x 24 pixels from epoch 4 on"});
}

TEST_CASE("Stages are seen, and make the same training whatever makes the batches") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  SessionOptions options = session(directory);
  const std::string whole = parameters_of(directory, options, "whole");
  SessionOptions other = options;
  other.data.progressive.clear();
  CHECK(parameters_of(directory, other, "other") != whole);
  other = options;
  other.data.feed = {.threads = 3, .ahead = 3};
  CHECK(parameters_of(directory, other, "threads") == whole);
  other = options;
  other.data.spread.memory_bytes = 1U << 24U;
  CHECK(parameters_of(directory, other, "spread") == whole);
  other = options;
  other.data.cache.path = directory.path / "copies";
  std::filesystem::create_directory(other.data.cache.path);
  other.data.cache.disk_bytes = 1U << 24U;
  CHECK(parameters_of(directory, other, "copies-used") == whole);
}

TEST_CASE("Two batches of a step are those of one, in stages too, and mixed images as well") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  SessionOptions options = session(directory);
  options.update.accumulate = 2;
  options.data.mixup = 0.3F;
  options.data.feed = {.threads = 2, .ahead = 2};
  const std::string whole = parameters_of(directory, options, "whole");
  parameters_of(directory, options, "half", 8);
  options.checkpoint.resume = directory.path / "half";
  CHECK(parameters_of(directory, options, "joined") == whole);
}

TEST_CASE("Decoded images that are kept serve all sizes") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  const auto sets = load_data(session(directory), network());
  REQUIRE(sets);
  const auto small = sets->train->at_size(12, 12);
  REQUIRE(small);
  CHECK(small->facts().classes == 2);
  const auto reader = small->reader();
  const auto first = reader->read(3, nullptr);
  REQUIRE(first);
  CHECK(first->pixels.size() == 12U * 12 * 3);
  CHECK(sets->train->reader()->read(3, nullptr)->pixels.size() == 24U * 24 * 3);
}

TEST_CASE("Each stage is told once, and epochs have its size") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  SessionOptions options = session(directory);
  std::vector<std::string> notes;
  options.note = [&](std::string_view note) { notes.emplace_back(note); };
  options.report.print = ReportOptions::Print::kAlways;
  REQUIRE(testing::run(options));
  CHECK(notes ==
        std::vector<std::string>{"data.progressive: images of 12 x 12 pixels from epoch 1 on",
                                 "data.progressive: images of 16 x 16 pixels from epoch 3 on",
                                 "data.progressive: images of 24 x 24 pixels from epoch 4 on"});
}

TEST_CASE("An epoch's stage is the first whose end is behind it") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  const SessionOptions options = session(directory);
  const auto sets = load_data(options, network());
  REQUIRE(sets);
  const auto stages = Stages::create(options.data.progressive, network(), *sets);
  REQUIRE(stages);
  CHECK((*stages)->end_of(0) == 2);
  CHECK((*stages)->end_of(1) == 2);
  CHECK((*stages)->end_of(2) == 3);
  CHECK((*stages)->end_of(3) > 1'000'000);
  CHECK((*stages)->is_begun(3));
  CHECK_FALSE((*stages)->is_begun(2));
  CHECK((*stages)->train().facts().height == 24);
}

std::string refusal(const SessionOptions& options) {
  const auto result = testing::run(options);
  REQUIRE_FALSE(result);
  CHECK(result.error().code() == Code::kInvalidArgument);
  return result.error().message();
}

TEST_CASE("What has one size is refused with the cure") {
  const TemporaryDirectory directory;
  write_pictures(directory.path / "pictures");
  SessionOptions options = session(directory);
  SECTION("a network that ends with all pixels") {
    nn::Graph flat({.channels = 3, .height = 24, .width = 24});
    flat.add("fc", nn::InnerProduct{.outputs = 2}, {0});
    options.graph = flat;
    CHECK_THAT(refusal(options), Contains("data.progressive") && Contains("layer \"fc\"") &&
                                     Contains("global_average_pool"));
  }
  SECTION("a set in memory") {
    options.data.format = DataFormat::kSynthetic;
    options.data.flip = false;
    CHECK_THAT(refusal(options), Contains("data.progressive") && Contains("encoded images"));
  }
  SECTION("images that are not square") {
    nn::Graph wide({.channels = 3, .height = 24, .width = 30});
    wide.add("pool", nn::GlobalAveragePool{}, {0});
    wide.add("fc", nn::InnerProduct{.outputs = 2}, {1});
    options.graph = wide;
    CHECK_THAT(refusal(options), Contains("24 x 30") && Contains("square"));
  }
  SECTION("a side that is not below") {
    options.data.progressive = {{.side = 24, .end_epoch = 1}};
    CHECK_THAT(refusal(options), Contains("side 24") && Contains("lower it"));
  }
}

}  // namespace
}  // namespace phub::train
